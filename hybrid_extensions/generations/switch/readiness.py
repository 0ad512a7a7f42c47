"""Readiness of a generation to serve: its rows, its history, and its live run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hybrid_extensions.generations.switch import refusals
from orchestration.launch_checks import next_offsets
from orchestration.supervision.live_look import look_at_live
from orchestration.supervision.rules.verdict import Verdict
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.supervision import Supervision
from sources.errors import InputError, StateError
from sources.files.tables.table_commits import TableCommits
from sources.hybrid import Boundedness
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.log_checks import check_not_deleted
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.open_snapshot import require_whole
from sources.serving import read_serving
from sources.state.generation import Generation
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.target_record import (
    read_target_record,
)
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.delta_table import open_table
from spark_jobs.table.ownership.belonging import TargetSide, require, require_belonging
from spark_jobs.table.ownership.foreign_changes import foreign_changes


def require_own(context: PipelineContext, promoted: Collection[str] = ()) -> None:
    """Refuse to promote a generation without the candidate of another pipeline that it reads.

    Args:
        context: The generation.
        promoted: Places of the candidates' tables that are promoted together with it.

    Raises:
        StateError: It was computed from another pipeline's candidate, which is not among them.
    """
    for source in context.loaded.pipeline.file_sources:
        if source.reads_candidate and not {*source.patterns} <= {*promoted}:
            with_whom = "with these" if promoted else "alone"
            message = (
                f"Generation {context.generation.name} can't be promoted {with_whom}: its source "
                f"`{source.name}` reads the {source.shown_place}, which no reader sees yet."
            )
            hint = (
                "Promote both together, or none: `hybrid generation promote`, with the files of "
                f"both pipelines, the other one's and {context.loaded.path}."
            )
            raise StateError(message, hint, source=source.name)


class Unready(NamedTuple):
    """Why a generation can't be promoted yet.

    Attributes:
        message: The reason, in sentences.
        hint: What to do now, in sentences.
        source: Name of the source that is not read to its end, or whose run is not well.
    """

    message: str
    hint: str
    source: str


def require_ready(context: PipelineContext) -> None:
    """Refuse to promote a generation with history unread or a stream that is not healthy.

    Raises:
        InputError: The target can't be read.
        StateError: A source is not read to its end, the live run was never started or is not
            healthy, the snapshot is not whole, or the generation does not belong to the target.
        UnavailableError: The store of the state or of the table does not answer.
    """
    if (found := find_unready(context)) is not None:
        message = f"{found.message} Nothing was changed."
        generation = context.generation.name
        raise StateError(message, found.hint, generation=generation, source=found.source)


def find_unready(context: PipelineContext) -> Unready | None:
    """Return what a generation has to do before it can be promoted; None if it is ready.

    Raises:
        InputError: The target can't be read.
        StateError: The snapshot is not whole, or the generation does not belong to the target.
        UnavailableError: The store of the state or of the table does not answer.
    """
    generation = context.generation
    require_belonging(context.loaded, generation)
    require_whole(context, "promoted")
    for source in context.pipeline.sources:
        is_bounded = source.boundedness is Boundedness.BOUNDED
        if is_bounded and context.switch_state.end_of(source.name) is None:
            message = (
                f"Generation {generation.name} can't be promoted: it has not read `{source.name}` "
                "to its end."
            )
            hint = f"Run {generation.name} to its end (`hybrid run P`), then promote it again."
            return Unready(message, hint, source.name)
        if is_bounded:
            continue
        look = look_at_live(context.loaded, generation)
        verdict: Verdict | None = None if look is None else look.verdict
        beat = read_heartbeat(generation, context.pipeline.run_of(source.name))
        if not is_ready(verdict, beat, context.pipeline.supervision):
            state = "was never started" if verdict is None else f"is {verdict.health}"
            reason = "" if verdict is None else f" ({verdict.reason})"
            message = (
                f"Generation {generation.name} can't be promoted: its live run {state}{reason}. "
                "Readers would get a table that is behind its input."
            )
            hint = (
                "Start the live run with `hybrid run P`, wait until `hybrid status P` shows it as "
                "healthy, then run `hybrid generation promote P` again. One that was stopped may "
                "be promoted while it can catch up with what waits within "
                "`supervision.caught_up_within`."
            )
            return Unready(message, hint, source.name)
        if (why := _why_it_waits(context)) is not None:
            message = (
                f"Generation {generation.name} can't be promoted: its live run can't read on, and "
                f"readers would get rows as they were. {why}"
            )
            hint = (
                "If a range was recomputed there, let this generation follow, `hybrid follow P`, "
                "and promote it again. If it can't follow, discard it, `hybrid generation discard "
                "P`, and compute the table again: `hybrid rerun P`."
            )
            return Unready(message, hint, source.name)
    return None


def _why_it_waits(context: PipelineContext) -> str | None:
    """Return why the run of a followed table waits or will fail, though all before is read."""
    source = context.pipeline.growing_folder
    if source is None or not source.is_table:
        return None
    try:
        GrowingFolder(context).undiscovered()
    except InputError as error:
        return error.message
    return None


def is_ready(verdict: Verdict | None, beat: Heartbeat | None, expected: Supervision) -> bool:
    """Return whether a promotion to a live run would keep readers up to date. A pure function.

    True if the run is healthy; or if people stopped it, as ``hybrid run --until caught-up`` does,
    and at its last rate it reads what waits within ``caught_up_within``. Of a folder, splits wait,
    whose rows nobody has counted: only one with none is ready.

    Args:
        verdict: The verdict on the live run; None if it was never requested.
        beat: The run's last heartbeat, with its rate; None if there is none.
        expected: The thresholds that the pipeline declares.
    """
    if verdict is None or verdict.health == "healthy":
        return verdict is not None
    lag = verdict.numbers.get("lag")
    if verdict.health != "stopped" or beat is None or lag is None:
        return False
    rate = 0.0 if beat.splits_total is not None else beat.rows_per_s or 0.0
    return lag <= rate * expected.caught_up_within.total_seconds()


def require_earlier(loaded: LoadedPipeline) -> str:
    """Return the name of the generation that a rollback returns to; refuse if none is kept.

    Raises:
        StateError: No generation that served before is kept.
        UnavailableError: The state's store does not answer.
    """
    if before := read_serving(loaded).before:
        return before[-1].generation
    message = (
        f"Pipeline `{loaded.pipeline.name}` has no earlier generation that is kept, so there is "
        "nothing to roll back to."
    )
    hint = (
        "To replace the rows, begin a new generation with `hybrid generation new P`, run it, and "
        "promote it. `generations.keep` sets how many earlier generations are kept."
    )
    raise StateError(message, hint, pipeline=loaded.pipeline.name)


def require_input(to: PipelineContext, brought_back: Mapping[str, int] | None = None) -> None:
    """Refuse to return to a generation that follows a table whose rows were replaced meanwhile.

    Its live run could not read on.

    Args:
        to: The generation.
        brought_back: Versions that the rollback itself brings back in tables of other pipelines, by
            the place of the table.

    Raises:
        StateError: It follows a table that was replaced, and does not get back its rows.
        UnavailableError: A store does not answer.
    """
    source = to.pipeline.growing_folder
    position = None if source is None else GrowingFolder(to).position
    if source is None or position is None:
        return
    until = (brought_back or {}).get(position.place)
    commits = TableCommits(source.name, to.loaded.place(position.place))
    try:
        found = commits.appended_after(position, to_read=False, until=until)
    except InputError as error:
        reason = error.message
    else:
        if until in (None, found.position.version):
            return
        reason = (
            f"Source `{source.name}`: the table {position.place} was read up to version "
            f"{position.version:,}, and the rollback brings back version {until:,}."
        )
    name = to.pipeline.name
    message = (
        f"Pipeline `{name}` can't be rolled back to {to.generation.name}: its live run could not "
        f"read on. {reason} Nothing was changed."
    )
    hint = (
        f"If the {source.shown_place} was promoted since, roll both back: `hybrid generation "
        f"rollback`, with the files of both pipelines, {to.loaded.path} and the other one's. "
        "Otherwise compute the table again: `hybrid rerun P`."
    )
    raise StateError(message, hint, pipeline=name, generation=to.generation.name)


def require_servable(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse to let a generation serve whose rows were changed by others.

    Called before a promotion or rollback; changes nothing.

    Raises:
        StateError: Names the changes; or checkpoint, state and its own table don't belong together.
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    side = TargetSide.of(loaded, generation)
    if (served := read_serving(loaded).served(generation.name)) is None:
        require(side)
        return
    record = read_target_record(generation)
    if record is None or record.verified is None:
        return
    # Refused here if it is gone, with what to do then.
    open_table(side.table)
    commits = CommitLog(side.table).between(record.verified, served.version)
    found = foreign_changes(commits, record.verified, side.is_own(side.writer()))
    if found.commits:
        raise refusals.changed_before_rollback(generation, side.table, found)


def require_not_deleted(context: PipelineContext) -> None:
    """Refuse to resume the last source where Kafka deleted records that it has not read.

    Called before a rollback, whose generation has not read the topic for some time. Nothing is
    refused if the last source reads files.

    Raises:
        SeamError: Names topic and partition, and how many offsets are lost.
        InputError: The broker does not know the topic, or refuses.
        StateError: The checkpoint or the plan is damaged.
        UnavailableError: The broker or the state's store does not answer.
    """
    for source in context.pipeline.turn_of(context.pipeline.sources[-1].name):
        if isinstance(source, KafkaSource):
            check_not_deleted(next_offsets(context, source), KafkaLog(source).log_start())
