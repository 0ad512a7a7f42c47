"""Texts of a pipeline's jobs: descriptions in Markdown, derived from its declaration."""

from __future__ import annotations

from collections.abc import Mapping

from orchestration.defs.jobs.actions import Action
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness

CONTROLS = {
    "STATUS": "shows how the pipeline is, and changes nothing",
    "PAUSE": "ends the stream at once; it keeps its place, and is shown as paused until RESUME",
    "RESUME": "starts the stream where PAUSE, DRAIN or STOP ended it",
    "DRAIN": "lets the stream commit all that is there now, then ends it, until RESUME",
    "STOP": "ends whatever runs, also while history is read; launch the job with the pipeline's "
    "name to continue history, or RESUME the stream",
    "RATE": "limits how fast a source is read; without a number the limit is removed",
    "APPROVE": "approves the plan; a chain that waits for this goes on",
}
"""What each action of the core does to a pipeline's runs."""


def build(loaded: LoadedPipeline) -> str:
    """Return the description, in Markdown, of the job that runs the whole chain."""
    pipeline = loaded.pipeline
    steps = [f"1. {_source(loaded, source.name)}" for source in pipeline.hybrid_source().sources]
    table = pipeline.sink.table or loaded.locate(pipeline.sink.path)
    key = ", ".join(f"`{name}`" for name in pipeline.sink.key)
    how = "updates rows by" if pipeline.sink.mode == "merge" else "adds rows, each once, by"
    lines = [
        # Dagster's tooltips show Markdown as it is: the first sentences have none.
        "Start here: builds the table, and keeps it up to date.",
        "Reads, in this order:",
        "\n".join(steps),
        f"Writes to the Delta table `{table}`: {how} {key}.",
    ]
    last = pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        lines.append(
            f"**The stream `{last.name}` keeps running** after this job has ended, watched by the "
            f"sensor `{pipeline.name}_supervision`. Pause or stop it with the job "
            f"`{pipeline.name}_control`."
        )
    if pipeline.approve:
        lines.append(
            "The run ends after the plan, until a person approves the plan with the job "
            f"`{pipeline.name}_control`; then it goes on by itself."
        )
    lines.append(
        "Safe to run again: what is done is not done again. To see the plan only, materialize the "
        "asset `plan` by itself.\n\nA table of your own is another file beside "
        f"`{loaded.path}`: it appears after *Deployment*, *Reload definitions*."
    )
    return "\n\n".join(lines)


def control(loaded: LoadedPipeline, actions: Mapping[str, Action]) -> str:
    """Return the description, in Markdown, of the control job.

    Args:
        loaded: The pipeline.
        actions: The actions of its form, by name.
    """
    name = loaded.pipeline.name
    first = (
        f"Shows and controls the runs of a pipeline that was started. The job `{name}` starts it. "
        "Choose the `action` in the Launchpad, with the fields of that action only:"
    )
    return f"{first}\n\n{listed(actions)}"


def listed(actions: Mapping[str, Action]) -> str:
    """Return the actions of a job's form as a list in Markdown, each with its text."""
    return "\n".join(f"- `{name}` {action.text}." for name, action in actions.items())


def _source(loaded: LoadedPipeline, name: str) -> str:
    source = loaded.pipeline.source(name)
    if isinstance(source, KafkaSource):
        what = f"topic {', '.join(f'`{each}`' for each in source.topics) or source.topic_pattern}"
        servers = source.bootstrap_servers
        where = "the local broker" if servers == "local" else f"`{servers}`"
        what = f"{what} at {where}"
    else:
        kind = "files" if source.table is None else "table"
        kind = "export of" if isinstance(source, ExportedFiles) else kind
        what = f"{kind} {', '.join(f'`{each}`' for each in source.shown_place.split(', '))}"
    is_live = source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    return f"`{name}`: {what}{', without end' if is_live else ''}"
