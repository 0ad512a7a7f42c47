"""Commands about this machine, not about one pipeline: reference, JVM parts."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from orchestration.cli.output import AsJson, answer

app = typer.Typer()


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option(help="Folder of the demo's pipelines, and of all that they make.")
    ] = Path("hybrid-demo"),
    no_ui: Annotated[
        bool, typer.Option("--no-ui", help="Run both pipelines, audit their tables, and end.")
    ] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Begin again.")] = False,
) -> None:
    """Run the demo: nine months of flights from files, then the feed of a topic, in one table.

    With Dagster's UI, until Ctrl-C; a broker is started for it. Needs the extra `demo`, and Java.
    """
    with answer(as_json=False):
        from hybrid_demo.demo import start

        status = start(folder, has_ui=not no_ui, reset=reset)
    raise typer.Exit(status)


@app.command()
def broker(
    data: Annotated[Path | None, typer.Option(help="Folder that keeps the records.")] = None,
) -> None:
    """Run a Kafka broker on this machine until Ctrl-C.

    Pipelines reach it with `bootstrap_servers: local`. There is one at a time: another folder's is
    shared or ended, never replaced.
    """
    with answer(as_json=False):
        from services.broker import LocalBroker
        from sources.common.cache import cache_folder
        from sources.kafka.address import local_address_file

        # SIGTERM ends it as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        folder = data or cache_folder() / "broker"
        with LocalBroker(folder, address_file=local_address_file()) as running:
            typer.echo(f"Kafka listens at {running.bootstrap_servers}; Ctrl-C ends it.")
            running.wait()


@app.command()
def reference(as_json: AsJson = False) -> None:
    """Print all fields of a pipeline's file as Markdown; with --json as a JSON Schema."""
    from orchestration.cli.reference import json_schema, markdown

    # Neither is an answer about a pipeline: both go into a file as they are.
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n" if as_json else markdown())


@app.command()
def jars(
    sets: Annotated[
        list[str] | None,
        typer.Argument(
            help="spark, s3 (`s3://` paths), broker (the local Kafka), connect (Debezium, for the "
            "demo and the tests). All of them if left out."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download the JVM parts into the cache before a run needs them.

    With `spark` among them, also archive the classes that a driver loads: drivers start faster.
    """
    with answer(as_json) as show:
        from spark_jobs.jvm.class_archive import make_archive
        from spark_jobs.jvm.jar_sets import sets_with
        from spark_jobs.jvm.jars import resolve_sets
        from spark_jobs.jvm.spark_version import installed_parts, spark_home

        fetched = resolve_sets(
            sets or sets_with(installed_parts()), lambda text: typer.echo(text, err=True)
        )
        found = {name: str(paths[0].parent) for name, paths in fetched.items()}
        if "spark" in fetched:
            typer.echo("Starting Spark once to archive its classes.", err=True)
            found["classes"] = str(make_archive(spark_home(), fetched["spark"]))
        lines = "\n".join(f"{name}: {folder}" for name, folder in found.items())
        show({"ok": True, **found}, lines)
