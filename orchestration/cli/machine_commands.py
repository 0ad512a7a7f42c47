"""Command `hybrid jars`: JVM parts are downloaded into the cache before a run needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, answer

app = typer.Typer()


@app.command(rich_help_panel=panels.MORE)
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
        from spark_jobs.jvm.installed_archive import installed_archive
        from spark_jobs.jvm.jar_sets import sets_with
        from spark_jobs.jvm.jars import resolve_sets
        from spark_jobs.jvm.spark_version import installed_parts, spark_home

        fetched = resolve_sets(
            sets or sets_with(installed_parts()), lambda text: typer.echo(text, err=True)
        )
        found = {name: str(paths[0].parent) for name, paths in fetched.items()}
        archive = installed_archive()
        if "spark" in fetched and archive is not None:
            typer.echo("Starting Spark once to archive its classes.", err=True)
            found["classes"] = str(archive.make(spark_home(), fetched["spark"]))
        lines = "\n".join(f"{name}: {folder}" for name, folder in found.items())
        show({"ok": True, **found}, lines)
