"""Look at the live run: what is asked, judged and to be remembered; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from orchestration.backlog import RECORDS
from orchestration.capture.interface import installed_capture
from orchestration.capture.look import LOOK_EVERY_MS, CaptureLook
from orchestration.remedies import for_generation
from orchestration.supervision.belonging_finding import find_refusal, with_refusal
from orchestration.supervision.late_row_findings import look_at_late_rows
from orchestration.supervision.observation import SPLITS, Seen, behind_since
from orchestration.supervision.refused_restart import read_refused
from orchestration.supervision.rules.catching_up import find_behind
from orchestration.supervision.rules.driver_clock import DriverClock
from orchestration.supervision.rules.health import judge
from orchestration.supervision.rules.verdict import Verdict
from orchestration.supervision.source_status import SourceStatus, source_status
from orchestration.supervision.watch_memory import Watch, read_watch
from sources.common.durations import span_ms
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorReport
from sources.serving import is_replaced, read_serving
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch, log_path
from spark_jobs.launch.obstacle import find_obstacle
from spark_jobs.launch.runs import find_run, why_ended
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.progress_log import read_progress_log
from spark_jobs.run_state.requested_state import read_requested
from spark_jobs.run_state.target_record import was_requested
from spark_jobs.run_state.wrong_rows import read_wrong_rows
from spark_jobs.table.ownership.belonging import require_belonging


class Look(NamedTuple):
    """Result of one look (evaluation of all observations) at the live run.

    Attributes:
        verdict: Health of the run, and why.
        watch: What the supervision is to remember until its next look.
        now_ms: Time of the look, in ms since 1970.
        capture: What was seen of captured tables and their connectors; None if no installed
            extension captures any.
        refused: Why the next launch is refused: checkpoint, state and target don't belong together,
            or something was done to the captured table that no change reports. None if it is not
            refused.
        refused_restart_ms: Time in the supervision's memory of the restart that launched nothing,
            as it was refused; None if the last one was not.
    """

    verdict: Verdict
    watch: Watch
    now_ms: int
    capture: CaptureLook | None = None
    refused: ErrorReport | None = None
    refused_restart_ms: int | None = None


def look_at_live(
    loaded: LoadedPipeline,
    generation: Generation,
    found: Sequence[SourceStatus] = (),
    *,
    table_older_ms: int = LOOK_EVERY_MS,
) -> Look | None:
    """Inspect the live run, its topic or folder, its slot and its table; change nothing.

    Args:
        loaded: The pipeline.
        generation: State of the generation.
        found: Progress of sources; that of one that the live run reads, and that is not among them,
            is looked up.
        table_older_ms: The captured table is examined if it was last examined longer ago than this,
            in ms.

    Returns:
        The verdict, and what is to be remembered; None if the live run was never requested.

    Raises:
        StateError: The state can't be read, or the record of the request is missing.
        InputError: A store or a broker refuses, or a cluster's command line tool is missing.
        UnavailableError: A store or a broker does not answer.
    """
    if (requested := read_requested(generation)) is None:
        if was_requested(generation):
            require_belonging(loaded, generation)
        return None
    name, expected = loaded.pipeline.sources[-1].name, loaded.pipeline.supervision
    lag, lag_error = _lag(loaded, generation, found)
    # After the question to the broker, which may take seconds.
    looked_ms = now_ms()
    launch = last_launch(generation)
    launch = launch if launch is not None and launch.source == name else None
    running = run_control.find_running(generation, name)
    beat = running or read_heartbeat(generation, name)
    if running is None and beat is not None and launch is not None:
        # The last heartbeat of an earlier launch says nothing about this one.
        beat = beat if beat.launch_id == launch.launch_id else None
    launch_id = beat.launch_id if beat is not None else launch and launch.launch_id
    batch_id = beat.batch_id if beat is not None else None

    watch = read_watch(generation, requested.at_ms).as_of(looked_ms)
    clock = DriverClock(watch.ahead_ms, watch.doubted_ms, watch.doubted_at_ms)
    if beat is not None:
        clock = clock.at(beat, looked_ms, span_ms(expected.stuck_after))
        beat = clock.translated(beat)
    is_where_it_was = (watch.launch_id, watch.batch_id) == (launch_id, batch_id)
    before_ms = watch.behind_since_ms if is_where_it_was else None
    held = 0 if beat is None else beat.held_offsets or 0
    due = None if lag is None else max(lag - held, 0)
    behind_ms = behind_since(beat, due, before_ms, looked_ms)
    unknown_ms = None
    if lag is None and beat is not None:
        unknown_ms = watch.lag_unknown_since_ms or looked_ms
    window_ms = looked_ms - span_ms(expected.restarts.within)
    restarts = [restart for restart in watch.restarts if restart.at_ms > window_ms]
    looked: CaptureLook | None = None
    if (capture := installed_capture()) is not None:
        committed = None if beat is None else beat.offsets
        looked = capture.look(
            loaded, generation, looked_ms, older_ms=table_older_ms, committed=committed
        )
    log, late_ms = read_progress_log(generation, name), span_ms(expected.late_after)
    is_alive = running is not None or find_run(generation, name) is not None
    refusal = read_refused(generation, requested.at_ms)
    is_of_topics = any(isinstance(each, KafkaSource) for each in loaded.pipeline.turn_of(name))
    seen = Seen(
        pipeline=loaded.pipeline.name,
        requested=requested,
        is_alive=is_alive,
        launched_ms=None if launch is None else launch.at_ms,
        beat=beat,
        lag=lag,
        behind_since_ms=behind_ms,
        unit=RECORDS if is_of_topics else SPLITS,
        lag_error=lag_error,
        lag_unknown_since_ms=unknown_ms,
        refused=None if refusal is None else refusal.report,
        ended=None if is_alive else why_ended(generation, name),
        log=None if is_alive else log_path(generation, name),
        restarts=len(restarts),
        last_failure=restarts[-1].why if restarts else None,
        gave_up=watch.gave_up,
        obstacle=find_obstacle(loaded, generation),
        slot=None if looked is None else looked.slot,
        silent=None if looked is None else looked.silent,
        behind=find_behind(log, beat, due, behind_ms, looked_ms, late_ms),
        late=look_at_late_rows(loaded, generation, looked_ms),
        wrong_rows=_wrong_rows(loaded, generation),
        is_replaced=is_replaced(loaded, generation.name),
    )
    refused = find_refusal(loaded, generation) or (None if looked is None else looked.altered)
    verdict = with_refusal(judge(seen, expected, looked_ms), refused)
    if read_serving(loaded).generation != generation.name:
        verdict = verdict.rendered(partial(for_generation, generation=generation.name))
    down_ms = None
    if verdict.down is not None:
        known_ms = watch.down_since_ms if watch.launch_id == launch_id else None
        down_ms = looked_ms if known_ms is None else known_ms
    changes = {
        "launch_id": launch_id,
        "batch_id": batch_id,
        "behind_since_ms": behind_ms,
        "lag_unknown_since_ms": unknown_ms,
        "down_since_ms": down_ms,
        "restarts": restarts,
        **clock._asdict(),
    }
    refused_ms = None if refusal is None else refusal.restart_ms
    return Look(verdict, watch.model_copy(update=changes), looked_ms, looked, refused, refused_ms)


def _lag(
    loaded: LoadedPipeline, generation: Generation, found: Sequence[SourceStatus]
) -> tuple[int | None, ErrorReport | None]:
    """Return the lag of all that the live run reads, and why it is unknown."""
    known = {each.source: each for each in found}
    names = [each.name for each in loaded.pipeline.turn_of(loaded.pipeline.sources[-1].name)]
    read = [known.get(name) or source_status(loaded, generation, name) for name in names]
    lags = [each.lag for each in read if each.lag is not None]
    error = next((each.lag_error for each in read if each.lag_error is not None), None)
    return sum(lags) if len(lags) == len(read) else None, error


def _wrong_rows(loaded: LoadedPipeline, generation: Generation) -> int | None:
    """Return how many rows of a mirror are stale or missing; None if it leaves out no change."""
    topics = loaded.pipeline.mirrors_that_leave_out_changes
    counts = [read_wrong_rows(generation, topic.name).count for topic in topics]
    return sum(counts) if counts else None
