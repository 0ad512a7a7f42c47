"""Commands that control a pipeline's runs: stop, pause, resume, drain, and limit their rate.

They act on the generation that serves, unless ``--generation`` names another one.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, GenerationName, PipelineFile, answer, load_acting
from sources.errors import COMMITTED_STAYS

if TYPE_CHECKING:
    from sources.config.loader import LoadedPipeline

app = typer.Typer()

By = Annotated[
    str, typer.Option("--by", help="Who asks; else the name of the operating system's user.")
]


def _who(by: str) -> str:
    """Return who asks for a command: the name given, or that of the operating system's user.

    Empty where a container's user has no name.
    """
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):
        return ""


def _document(loaded: LoadedPipeline) -> dict[str, Any]:
    """Return what programs get of each command that starts or ends a run."""
    from sources.serving import declared_generation

    return {"ok": True, "pipeline": loaded.pipeline.name, "generation": declared_generation(loaded)}


@app.command(rich_help_panel=panels.RUN)
def stop(
    pipeline: PipelineFile, by: By = "", generation: GenerationName = None, as_json: AsJson = False
) -> None:
    """Stop a generation's Spark run; `hybrid run` or `hybrid resume` continues from there.

    The supervision does not start it again. That nothing is running is no error; other generations
    whose runs go on are named. If a run can't be ended from here, the command fails, and the run
    may still be writing.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.operations import stopping
        from sources.serving import generation_with_role

        loaded = load_acting(pipeline, generation, as_kept=True)
        stopped = stopping.stop(loaded, _who(by))
        what = f"Stopped {', '.join(stopped)}" if stopped else "Nothing was running"
        text = f"{what} (generation {generation_with_role(loaded)})."
        if others := stopping.others_running(loaded):
            text += f" Still running: {', '.join(others)}; end it with `--generation {others[0]}`."
        show({**_document(loaded), "stopped": stopped, "others_running": others}, text)


@app.command(rich_help_panel=panels.RUN)
def pause(
    pipeline: PipelineFile,
    why: Annotated[str, typer.Option(help="Reason, shown while the stream is paused.")] = "",
    by: By = "",
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Stop the live stream until `hybrid resume`; the status shows since when, by whom and why.

    The supervision does not start it again. An unfinished micro-batch is repeated then.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.supervision import controls
        from sources.serving import generation_with_role

        loaded = load_acting(pipeline, generation, as_kept=True)
        was_running = controls.pause(loaded, why, _who(by))
        what = "Paused" if was_running else "Paused; nothing was running"
        text = f"{what} (generation {generation_with_role(loaded)})."
        show({**_document(loaded), "ended": was_running}, text)


@app.command(rich_help_panel=panels.RUN)
def resume(
    pipeline: PipelineFile, by: By = "", generation: GenerationName = None, as_json: AsJson = False
) -> None:
    """Start the live stream again after it was paused or stopped, or drained (read to its end).

    Returns once its first batch is committed. From then on the supervision restarts it if it fails.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.supervision import controls
        from sources.serving import generation_with_role

        loaded = load_acting(pipeline, generation)
        beat = controls.resume(loaded, _who(by))
        whose = generation_with_role(loaded)
        text = f"`{beat.source}` of generation {whose}, is live: driver {beat.pid}."
        show({**_document(loaded), "batch": beat.batch_id}, text)


@app.command(rich_help_panel=panels.RUN)
def drain(
    pipeline: PipelineFile,
    within: Annotated[str, typer.Option(help="How long to wait, such as 10 min or 2 h.")] = "1 h",
    by: By = "",
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Stop the live stream once it has committed all input that is there now.

    `hybrid resume` continues from there. If the time is up before, the stream goes on, and the exit
    status is 1.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.cli import console
        from sources.common.durations import parse_duration
        from sources.serving import declared_generation, generation_with_role

        loaded = load_acting(pipeline, generation, as_kept=True)
        console.drain(loaded, parse_duration(within), _who(by))
        name = loaded.pipeline.sources[-1].name
        text = f"`{name}` of generation {generation_with_role(loaded)}, is drained and stopped."
        show({"ok": True, "generation": declared_generation(loaded), "drained": name}, text)


@app.command(rich_help_panel=panels.RUN)
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
    by: By = "",
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Limit how fast a source is read; without a number, lift the limit.

    A run that is active adopts the limit.
    """
    with answer(as_json, "No row of the table was changed.") as show:
        from orchestration.operations import rate_change
        from sources.config.source.rate_limit import parse_limit
        from sources.serving import declared_generation, generation_with_role

        loaded = load_acting(pipeline, generation, as_kept=True)
        limit = parse_limit(bytes_, files=files, rows=rows, offsets=offsets)
        rate_change.change_rate(loaded, source, limit, _who(by))
        given = limit.model_dump(exclude_none=True)
        how = f"at {limit.in_words} at most" if given else "without a limit"
        text = f"`{source}` of generation {generation_with_role(loaded)}, is read {how}."
        document = {
            "ok": True,
            "generation": declared_generation(loaded),
            "source": source,
            "rate": given,
        }
        show(document, text)
