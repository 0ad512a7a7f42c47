"""Status of one source: waiting, running, silent, dead; its lag, time left, and what to note."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from orchestration.backlog import Backlog, TopicBacklog, backlog_of
from orchestration.catch_up import held_in_words
from orchestration.progress.forecast import eta_s
from sources.common.counting import counted
from sources.common.durations import span_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import (
    BadRecordCount,
    bad_count_name,
    quarantine_folder,
)
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit, rate_of
from sources.config.source.source_kinds import AnySource
from sources.config.table.row_rules import RULE_KIND
from sources.errors import ErrorReport, InputError, UnavailableError
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client.kafka_log import missing_in_words
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import open_in_words
from sources.state.generation import Generation
from spark_jobs.inside.readers.files.kept_batch import waiting_change
from spark_jobs.launch import run_control
from spark_jobs.launch.runs import find_run
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, heartbeat_name, read_heartbeat
from spark_jobs.run_state.progress_log import read_progress_log
from spark_jobs.run_state.requested_state import read_requested

SourceState = Literal[
    "waiting", "starting", "running", "silent", "finished", "stopped", "failed", "dead"
]


class SourceStatus(BaseModel):
    """Status of one source.

    Attributes:
        source: Name of the source.
        state: ``waiting`` before its first run; ``dead`` if its process has ended without a report;
            ``silent`` if a bounded run's process is there and writes no heartbeats (for an
            unbounded one, see the verdict).
        heartbeat: Latest heartbeat of its run; None before the first one.
        lag: Of the live run: records of a topic, or splits found in a folder, that are not
            committed yet; None if that is unknown, and for bounded sources.
        lag_error: Why the lag is unknown: the broker does not answer or refuses, or it can't be
            found out otherwise; None if nothing failed.
        eta_s: Seconds until nothing is left to read, at the rate of the last minutes; None if the
            source does not run, or that is unknown.
        open_snapshot: How many chunks of a snapshot are read, as long as the table is not whole
            because changes are followed while it is read; else None.
        note: A sentence about a changed declaration that has no effect yet, about input that an
            open transaction keeps back, about a topic that does not exist yet, about an input
            whose topic has no record yet, about a broker that does not answer a bounded run, about
            where records are that were left out, or about a rate limit; None if there is none.
    """

    source: str
    state: SourceState
    heartbeat: Heartbeat | None = None
    lag: int | None = None
    lag_error: ErrorReport | None = None
    eta_s: float | None = None
    open_snapshot: str | None = None
    note: str | None = None


def source_status(loaded: LoadedPipeline, generation: Generation | None, name: str) -> SourceStatus:
    """Return the status of a source, from the state folder and, for its lag, the broker.

    A broker that does not answer or refuses is no error, and is waited for about 3 s: the lag is
    then unknown.

    Args:
        loaded: The pipeline.
        generation: State of the generation; None if nothing was planned yet, so that every source
            waits.
        name: Name of the source, which the pipeline has to have.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store or a cluster does not answer.
        InputError: A cluster's command line tool is not installed.
    """
    if generation is None:
        return SourceStatus(source=name, state="waiting")
    run = loaded.pipeline.run_of(name)
    beat = read_heartbeat(generation, run)
    source = loaded.pipeline.source(name)
    lag: int | None = None
    lag_error: ErrorReport | None = None
    held, missing = 0, list[str]()
    is_live = source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    is_read = SwitchState(loaded.pipeline.hybrid_source(), generation).end_of(name) is not None
    state = "finished" if is_read else _state(loaded, generation, run, beat)
    if is_live and beat is not None:
        try:
            backlog = _backlog(PipelineContext(loaded, generation), source)
            # One that died is started again soon; what it reported last is still of use.
            asked = read_requested(generation)
            is_ended = state not in ALIVE and asked is not None and not asked.is_requested
            lag = backlog.reported(beat, is_ended=is_ended)
            held, missing = backlog.held(), backlog.missing()
        except (InputError, UnavailableError) as error:
            lag_error = error.report()
    left = eta_s(read_progress_log(generation, run)) if state == "running" else None
    change = waiting_change(source, generation) if isinstance(source, FileSource) else None
    note = change or _left_out_in_words(loaded, generation, source)
    if is_live and beat is not None and name in beat.silent and beat.watermark_ms is not None:
        note = _silent_in_words(loaded, name)
    if held:
        note = held_in_words(held)
    if not is_live and state == "running" and beat is not None and beat.unreachable is not None:
        note = f"Source `{name}` makes no progress. {beat.unreachable}"
    if missing:
        note = f"Source `{name}` waits: {missing_in_words(missing)}"
    limit = rate_of(generation, name, source.rate)
    if note is None and not is_read and limit != RateLimit():
        note = f"`{name}` is read at {limit.in_words} at most; `hybrid rate P {name}` lifts that."
    return SourceStatus(
        source=name,
        state=state,
        heartbeat=beat,
        lag=lag,
        lag_error=lag_error,
        eta_s=left,
        open_snapshot=open_in_words(PipelineContext(loaded, generation)) if is_live else None,
        note=note,
    )


def _left_out_in_words(
    loaded: LoadedPipeline, generation: Generation, source: AnySource
) -> str | None:
    """Return a sentence about where records are that were left out; None if they are nowhere."""
    found = generation.read(bad_count_name(source.name), BadRecordCount)
    if found is None:
        return None
    of_rules = {f"{RULE_KIND}{name}": count for name, count in found.broken.items()}
    counts = {"unreadable": found.total, "outside": found.outside, **of_rules}
    kinds = source.recorded(loaded.pipeline.event_time, loaded.pipeline.row_rules)
    if not (kept := sum(counts.get(kind, 0) for kind in kinds)):
        return None
    folder = quarantine_folder(source.name, source.quarantine, generation, loaded.pipeline.stores)
    what = counted(kept, "record of", "records of")
    return f"{what} source `{source.name}`, left out of the table: see the Delta table `{folder}`."


def _silent_in_words(loaded: LoadedPipeline, name: str) -> str:
    """Return a sentence about an input that holds back the watermark of all inputs."""
    return (
        f"Input `{loaded.pipeline.input_of(name)}`: source `{name}` has had no record since the "
        "run began, so the watermark of all inputs stands still: windows, and rows of joins that "
        "wait for it, are not written. Its next record ends that, such as a heartbeat "
        "that the transform leaves out after `withWatermark`."
    )


def _backlog(context: PipelineContext, source: AnySource) -> Backlog:
    """Return the backlog of a live source: of one of several inputs that of its own topic."""
    if context.pipeline.inputs and isinstance(source, KafkaSource):
        return TopicBacklog(context, source)
    return backlog_of(context)


def _state(
    loaded: LoadedPipeline, generation: Generation, name: str, beat: Heartbeat | None
) -> SourceState:
    run = find_run(generation, name)
    if run is not None and run.driver.beat() is None:
        return "starting"
    if beat is None:
        return "waiting"
    if beat.state in ALIVE and run_control.find_running(generation, name) is None:
        return "dead"
    is_bounded = loaded.pipeline.source(name).boundedness is Boundedness.BOUNDED
    if not is_bounded or beat.state not in ALIVE:
        return beat.state
    # By the store's clock, as the driver's may be behind.
    age_ms = generation.documents.age_ms(generation.location(heartbeat_name(name))) or 0
    return "silent" if age_ms >= span_ms(loaded.pipeline.supervision.stuck_after) else beat.state
