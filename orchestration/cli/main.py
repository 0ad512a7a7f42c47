"""The command line: ``hybrid init|validate|plan|run|status|stop|… PIPELINE.yaml``.

Exit status 0: good; 1: the answer is bad; 2: bad input. With ``--json`` one JSON document goes
to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import generation as generation_cli
from orchestration.cli.output import AsJson, PipelineFile, answer, load

app = typer.Typer(
    help="Batch-then-stream backfill: files, then Kafka, as one Spark query.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(generation_cli.app, name="generation")


class Until(StrEnum):
    """When ``hybrid run`` returns."""

    LIVE = "live"
    CAUGHT_UP = "caught-up"


def main() -> None:
    """Entry point of the ``hybrid`` command."""
    app()


@app.command()
def init(  # noqa: PLR0913, PLR0917 - each is an option
    name: Annotated[str, typer.Argument(help="Of the pipeline.")],
    files: Annotated[str, typer.Option(help="History's files, such as `data/**/*.parquet`.")],
    topic: Annotated[str | None, typer.Option(help="Goes on where they end.")] = None,
    servers: Annotated[str, typer.Option(help="Where the topic is.")] = "local",
    event_time: Annotated[
        str | None, typer.Option(help="The column that tells when a row happened.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A column that identifies a row; may be repeated.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a pipeline to start from, over files that are there: YAML, transform and audit."""
    with answer(as_json) as show:
        from orchestration.cli.init import StarterOptions, start

        options = StarterOptions(name, files, topic, servers, event_time, key or [])
        loaded, written = start(folder, options)
        shown = "\n".join(f"  {path}" for path in written)
        text = f"Written:\n{shown}\nLook at them, then: hybrid plan {loaded.path}"
        show({"ok": True, "pipeline": name, "written": [str(path) for path in written]}, text)


@app.command()
def validate(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Check a pipeline's declaration; no data is looked at."""
    with answer(as_json) as show:
        from orchestration import chain

        loaded = load(pipeline)
        chain.validate(loaded)
        names = [source.name for source in loaded.pipeline.sources]
        show(
            {"ok": True, "pipeline": loaded.pipeline.name, "sources": names},
            f"{loaded.pipeline.name}: {' → '.join(names)} is a valid pipeline.",
        )


@app.command()
def snapshot(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Take the snapshots that a pipeline begins with; what is there already is kept."""
    with answer(as_json) as show:
        from orchestration.cli import console

        document, text = console.snapshot(load(pipeline), lambda text: typer.echo(text, err=True))
        show({"ok": True, **document}, text)


@app.command()
def plan(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Look at all sources and show what will be read, in which order, from where."""
    with answer(as_json) as show:
        from orchestration import chain
        from orchestration.cli import tables
        from orchestration.progress.plan_preview import preview

        loaded = load(pipeline)
        made = chain.plan(loaded)
        seen = preview(loaded, made)
        document = {**made.model_dump(mode="json"), "preview": seen.model_dump(mode="json")}
        show({"ok": True, **document}, tables.plan(made, seen))


@app.command()
def approve(
    pipeline: PipelineFile,
    by: Annotated[
        str, typer.Option(help="Who approves.", envvar=["USER", "USERNAME"], show_envvar=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Approve the plan of a pipeline that declares `approve: true`; then its chain may run."""
    with answer(as_json) as show:
        from sources.common.positions import iso
        from sources.planning import approval

        loaded = load(pipeline)
        given = approval.approve(loaded, by)
        text = f"Approved by {given.by} at {iso(given.at_ms)}. Go on with: hybrid run {pipeline}"
        show({"ok": True, **given.model_dump(mode="json")}, text)


@app.command()
def run(
    pipeline: PipelineFile,
    until: Annotated[Until, typer.Option(help="When to return.")] = Until.LIVE,
    as_json: AsJson = False,
) -> None:
    """Run the chain without Dagster; what was done before is not done again.

    `--until live` leaves the stream running once its first batch is in; `--until caught-up`
    waits until it has read everything there is, then stops it.
    """
    with answer(as_json) as show:
        from orchestration.cli import console, tables
        from orchestration.supervision.status import status as look

        loaded = load(pipeline)
        console.run(loaded, stop_when_caught_up=until is Until.CAUGHT_UP)
        found = look(loaded)
        # A stream that was just started has yet to catch up.
        good = found.healthy or (found.live is not None and found.live.health == "late")
        show({"ok": good, **found.model_dump(mode="json")}, tables.status(found))


@app.command()
def step(
    pipeline: PipelineFile,
    name: Annotated[str, typer.Argument(help="`plan`, a source, or its hand-over `<name>_start`.")],
    as_json: AsJson = False,
) -> None:
    """Do one step of the chain, as an orchestrator of your own would; again does nothing."""
    with answer(as_json) as show:
        from orchestration.cli import console

        document, text = console.step(load(pipeline), name)
        show({"ok": True, "step": name, **document}, text)


@app.command()
def status(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Show where a pipeline stands; exit status 1 if a run failed or is dead, stuck or late."""
    with answer(as_json) as show:
        from orchestration.cli import tables
        from orchestration.supervision.status import status as look

        found = look(load(pipeline))
        show({"ok": found.healthy, **found.model_dump(mode="json")}, tables.status(found))


@app.command()
def logs(
    pipeline: PipelineFile,
    lines: Annotated[int, typer.Option(min=1, help="How many of the last ones.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show what the driver of the last run printed, wherever it ran."""
    with answer(as_json) as show:
        from orchestration.cli import console

        source, text = console.logs(load(pipeline), lines)
        show({"ok": True, "source": source, "lines": text.splitlines()}, text)


@app.command()
def stop(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """End the pipeline's running Spark process; `hybrid run` or `hybrid resume` goes on."""
    with answer(as_json) as show:
        from orchestration import chain

        loaded = load(pipeline)
        stopped = chain.stop(loaded)
        text = f"Stopped {', '.join(stopped)}." if stopped else "Nothing was running."
        show({"ok": True, "pipeline": loaded.pipeline.name, "stopped": stopped}, text)


@app.command()
def pause(
    pipeline: PipelineFile,
    why: Annotated[str, typer.Option(help="Shown for as long as it is paused.")] = "",
    as_json: AsJson = False,
) -> None:
    """End the live run until `hybrid resume`; meanwhile it is shown as paused, not as stopped."""
    with answer(as_json) as show:
        from orchestration.supervision import controls

        loaded = load(pipeline)
        was_there = controls.pause(loaded, why)
        text = "Paused." if was_there else "Paused; nothing was running."
        show({"ok": True, "pipeline": loaded.pipeline.name, "ended": was_there}, text)


@app.command()
def resume(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Start the live run again where it was paused, stopped or drained."""
    with answer(as_json) as show:
        from orchestration.supervision import controls

        loaded = load(pipeline)
        beat = controls.resume(loaded)
        document = {"ok": True, "pipeline": loaded.pipeline.name, "batch": beat.batch_id}
        show(document, f"`{beat.source}` is live: driver {beat.pid}.")


@app.command()
def drain(
    pipeline: PipelineFile,
    within: Annotated[str, typer.Option(help="How long to wait, such as 10 min or 2 h.")] = "1 h",
    as_json: AsJson = False,
) -> None:
    """Let the live run commit all that is there now, then stop it; `hybrid resume` goes on."""
    with answer(as_json) as show:
        from orchestration.cli import console
        from sources.common.fields import parse_duration

        loaded = load(pipeline)
        console.drain(loaded, parse_duration(within))
        name = loaded.pipeline.sources[-1].name
        show({"ok": True, "drained": name}, f"`{name}` is drained and stopped.")


@app.command()
def rate(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    source: Annotated[str, typer.Argument(help="One of its sources.")],
    bytes_: Annotated[str | None, typer.Option("--bytes", help="Of files, such as 50MiB.")] = None,
    files: Annotated[int | None, typer.Option(help="Files by second.", min=1)] = None,
    rows: Annotated[
        int | None, typer.Option(help="Of Parquet, Delta or ORC, by second.", min=1)
    ] = None,
    offsets: Annotated[int | None, typer.Option(help="Of topics, by second.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Limit how fast a source is read, by second, also while it is; without a number: no limit."""
    with answer(as_json) as show:
        from orchestration import chain
        from sources.config.rate_limit import parse_limit

        loaded = load(pipeline)
        limit = parse_limit(bytes_, files=files, rows=rows, offsets=offsets)
        chain.change_rate(loaded, source, limit)
        given = limit.model_dump(exclude_none=True)
        shown = ", ".join(f"{number:,} {name}" for name, number in given.items())
        text = (
            f"`{source}` is read at {shown} a second at most."
            if given
            else (f"`{source}` is read as fast as it goes.")
        )
        show({"ok": True, "source": source, "rate": given}, text)


@app.command()
def audit(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Compare the target with an independent computation over all input."""
    with answer(as_json) as show:
        from orchestration.audit.run import audit as compare
        from orchestration.cli import tables

        report = compare(load(pipeline))
        show(report.to_dict(), tables.audit(report))


@app.command()
def backfill(
    pipeline: PipelineFile,
    since: Annotated[str, typer.Option(help="The first event time: a date, or a time with zone.")],
    until: Annotated[str, typer.Option(help="The first one that is left as it is.")],
    dry_run: Annotated[bool, typer.Option(help="Only tell what would be read.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a range of the target anew from the files; the live run, and its rows, go on."""
    with answer(as_json) as show:
        import uuid

        from orchestration.generations.ranges import backfill as again
        from orchestration.generations.ranges import look
        from sources.common.fields import parse_instant

        begin, end = parse_instant(since), parse_instant(until)
        if dry_run:
            would = look(load(pipeline), begin, end)
            document = {"generation": would.generation, "splits": would.splits}
            show({"ok": True, **document, "bytes": would.bytes}, f"{would.text}.")
            return
        found = again(
            load(pipeline),
            begin,
            end,
            uuid.uuid4().hex[:12],
            lambda text: typer.echo(text, err=True),
        )
        counts = found.replaced._asdict()
        text = f"{counts['removed']:,} rows are replaced by {counts['written']:,}."
        show({"ok": True, "generation": found.generation, **counts}, text)


@app.command()
def rerun(
    pipeline: PipelineFile,
    promote: Annotated[bool, typer.Option(help="Let it serve if all is well.")] = True,
    rows_at_least: Annotated[
        float, typer.Option(help="Its rows over those that readers have now.", min=0)
    ] = 0.99,
    as_json: AsJson = False,
) -> None:
    """Make the table anew as a new generation, catch up, compare, and let readers see it."""
    with answer(as_json) as show:
        from orchestration.generations.lifecycle import rerun as again

        served = again(
            load(pipeline),
            promote=promote,
            rows_at_least=rows_at_least,
            say=lambda text: typer.echo(text, err=True),
        )
        document = {"ok": True, "serving": served.generation}
        show(document, f"Readers see generation {served.generation}.")


@app.command()
def compare(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Compare the target with the database table that it took over, row for row, as both are."""
    with answer(as_json) as show:
        from orchestration.audit.compare_source import compare_with_source

        found = compare_with_source(load(pipeline))
        lines = [
            f"{found.table}: {found.rows:,} rows, {found.found:,} in the target; "
            f"{found.only_in_source:,} only in the source, {found.only_in_target:,} only in the "
            "target.",
            *found.examples,
        ]
        show(found.to_dict(), "\n".join(lines))


@app.command()
def broker(
    data: Annotated[Path | None, typer.Option(help="Folder that keeps the records.")] = None,
) -> None:
    """Run a local Kafka broker until Ctrl-C; `bootstrap_servers: local` finds it."""
    with answer(as_json=False):
        from services.broker import LocalBroker
        from sources.kafka.address import cache_folder, local_address_file

        # SIGTERM ends it as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        folder = data or cache_folder() / "broker"
        with LocalBroker(folder, address_file=local_address_file()) as running:
            typer.echo(f"Kafka listens at {running.bootstrap_servers}; Ctrl-C ends it.")
            running.wait()


@app.command()
def reference(as_json: AsJson = False) -> None:
    """Print what a pipeline's file may hold, as Markdown; with --json as a JSON Schema."""
    from orchestration.cli.reference import json_schema, markdown

    # Neither is an answer about a pipeline: both go into a file as they are.
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n" if as_json else markdown())


@app.command()
def jars(as_json: AsJson = False) -> None:
    """Fetch the JVM parts into the cache, and archive their classes: drivers start faster then."""
    with answer(as_json) as show:
        from spark_jobs.jvm.class_archive import make_archive
        from spark_jobs.jvm.jars import SETS, resolve
        from spark_jobs.launch.submit import spark_home

        found = {
            name: str(resolve(name, on_progress=lambda text: typer.echo(text, err=True))[0].parent)
            for name in SETS
        }
        typer.echo("a small run, whose classes are archived", err=True)
        found["classes"] = str(make_archive(spark_home(), resolve("spark")))
        lines = "\n".join(f"{name}: {folder}" for name, folder in found.items())
        show({"ok": True, **found}, lines)
