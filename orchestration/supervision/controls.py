"""What people ask of a live run besides starting and stopping it: pause, resume, drain."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from orchestration import chain
from orchestration.requested_state import Wanted, put_wish, read_wanted
from sources.common.positions import now_ms
from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, RunError, StateError
from sources.hybrid import Boundedness
from sources.kafka.client import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.discovery import GrowingFolder
from spark_jobs.launch import process
from spark_jobs.launch.runs import log_path
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat

_POLL_S = 0.5

Left = Callable[[Heartbeat], int]
"""How much of what was there when it was asked for is not committed yet."""


def live_source(loaded: LoadedPipeline) -> FileSource | KafkaSource:
    """The source without end that a pipeline goes on with.

    Raises:
        InputError: It has none.
    """
    last = loaded.pipeline.sources[-1]
    if last.boundedness is Boundedness.BOUNDED:
        message = f"Pipeline `{loaded.pipeline.name}` ends with `{last.name}`: it has no live run."
        raise InputError(message, "End it with `hybrid stop`, go on with `hybrid run`.")
    return last


def pause(loaded: LoadedPipeline, why: str = "") -> bool:
    """End the live run until people resume it; a micro-batch that is under way is left undone.

    Unlike one that was stopped it is shown as paused, since when, why, and how much waits.

    Args:
        loaded: The pipeline.
        why: What people are told of it.

    Returns:
        Whether a process was there to be ended.

    Raises:
        InputError: The pipeline has no live run.
        StateError: Nobody wants it to run, so there is nothing to be paused.
    """
    source = live_source(loaded)
    generation = loaded.require_generation()
    before = read_wanted(generation)
    if before is None or not (before.is_wanted or before.is_paused):
        message = f"The live run of `{source.name}` is not wanted: there is nothing to pause."
        raise StateError(message, "What reads history is ended with `hybrid stop`.")
    if before.is_wanted:
        wish = Wanted(
            source=source.name, is_wanted=False, at_ms=now_ms(), is_paused=True, why=why.strip()
        )
        put_wish(generation, wish)
    return process.stop(generation, source.name)


def resume(loaded: LoadedPipeline) -> Heartbeat:
    """Start the live run again where it was paused, stopped or drained; it is wanted from then on.

    Raises:
        InputError: The pipeline has no live run.
        StateError: What comes before it is not done yet.
        SeamError: The hand-over does not pass its checks; asked before the first launch only.
        RunError: Spark failed before its first batch; it is wanted all the same.
    """
    return chain.go_live(loaded, live_source(loaded))


def drain(
    loaded: LoadedPipeline, within: timedelta, on_left: Callable[[int], None] = lambda _: None
) -> None:
    """Let the live run commit all that its topics, or its folder, hold now; then stop it.

    What arrives meanwhile may be in or not; a run that is resumed goes on right after what is.

    Args:
        loaded: The pipeline.
        within: How long to wait. The run goes on after that, as if nobody had asked.
        on_left: Called with the number of records, or files and splits, that are left.

    Raises:
        InputError: The pipeline has no live run, or its topic or folder can't be looked at.
        StateError: It does not run.
        RunError: It ended before it was done, or time was up; says how much is left.
    """
    source = live_source(loaded)
    generation = loaded.require_generation()
    if process.find_running(generation, source.name) is None:
        message = f"The live run of `{source.name}` does not run: nothing would be drained."
        raise StateError(message, "Start it with `hybrid resume`, then drain it.")
    deadline = time.monotonic() + within.total_seconds()
    is_topic = isinstance(source, KafkaSource)
    count_left = _of_topic(loaded, source) if is_topic else _of_folder(loaded, generation)
    left: int | None = None
    while True:
        beat = process.find_running(generation, source.name)
        if beat is None:
            raise _ended(generation, source.name, left)
        left = count_left(beat)
        on_left(left)
        if left == 0:
            break
        if time.monotonic() > deadline:
            message = (
                f"`{source.name}` is not drained after {within.total_seconds():,.0f} s: "
                f"{left:,} {'records' if is_topic else 'files or splits'} are left."
            )
            hint = "It goes on running: drain it once more, or end it with `hybrid stop`."
            raise RunError(message, hint)
        time.sleep(_POLL_S)
    chain.stop(loaded)


def _ended(generation: Generation, name: str, left: int | None) -> RunError:
    last = read_heartbeat(generation, name)
    cause = last.error if last is not None and last.error else f"See {log_path(generation, name)}."
    rest = "" if left is None else f", with {left:,} left"
    return RunError(f"The live run of `{name}` ended before it was drained{rest}.", cause)


def _of_topic(loaded: LoadedPipeline, source: FileSource | KafkaSource) -> Left:
    assert isinstance(source, KafkaSource)
    log = KafkaLog(source)
    ends = log.log_end()
    return lambda beat: chain.lag(beat, log, loaded, ends)


def _of_folder(loaded: LoadedPipeline, generation: Generation) -> Left:
    arrived = GrowingFolder(PipelineContext(loaded, generation)).undiscovered()
    splits: int | None = None

    def left(beat: Heartbeat) -> int:
        nonlocal arrived, splits
        if splits is None:
            # What is neither known nor to be found was removed again.
            folder = GrowingFolder(PipelineContext(loaded, generation))
            arrived &= folder.undiscovered()
            if arrived:
                return len(arrived) + folder.splits - (beat.splits_done or 0)
            splits = folder.splits
        return max(splits - (beat.splits_done or 0), 0)

    return left
