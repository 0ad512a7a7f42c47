"""Commands that control a pipeline's runs: stop, pause, resume, drain, and limit their rate."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.output import AsJson, PipelineFile, answer, load

app = typer.Typer()


@app.command()
def stop(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Stop the pipeline's Spark run; `hybrid run` or `hybrid resume` continues from there."""
    with answer(as_json) as show:
        from orchestration import operations

        loaded = load(pipeline)
        stopped = operations.stop(loaded)
        text = f"Stopped {', '.join(stopped)}." if stopped else "Nothing was running."
        show({"ok": True, "pipeline": loaded.pipeline.name, "stopped": stopped}, text)


@app.command()
def pause(
    pipeline: PipelineFile,
    why: Annotated[str, typer.Option(help="Reason, shown while the stream is paused.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop the live stream until `hybrid resume`; the status shows it as paused, and why."""
    with answer(as_json) as show:
        from orchestration.supervision import controls

        loaded = load(pipeline)
        was_running = controls.pause(loaded, why)
        text = "Paused." if was_running else "Paused; nothing was running."
        show({"ok": True, "pipeline": loaded.pipeline.name, "ended": was_running}, text)


@app.command()
def resume(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Start the live stream again after it was paused, stopped or drained."""
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
    """Stop the live stream once it has committed all input that is there now.

    `hybrid resume` continues from there.
    """
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
    source: Annotated[str, typer.Argument(help="Name of one of its sources.")],
    bytes_: Annotated[
        str | None, typer.Option("--bytes", help="Bytes of files per second, such as 50MiB.")
    ] = None,
    files: Annotated[int | None, typer.Option(help="Files per second.", min=1)] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows of Parquet, Delta or ORC per second.", min=1)
    ] = None,
    offsets: Annotated[
        int | None, typer.Option(help="Offsets of topics per second.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Limit how fast a source is read; without a number, lift the limit.

    A run that is active adopts the limit.
    """
    with answer(as_json) as show:
        from orchestration import operations
        from sources.config.rate_limit import parse_limit

        loaded = load(pipeline)
        limit = parse_limit(bytes_, files=files, rows=rows, offsets=offsets)
        operations.change_rate(loaded, source, limit)
        given = limit.model_dump(exclude_none=True)
        shown = ", ".join(f"{number:,} {name}" for name, number in given.items())
        text = f"`{source}` is read without a limit."
        if given:
            text = f"`{source}` is read at {shown} per second at most."
        show({"ok": True, "source": source, "rate": given}, text)
