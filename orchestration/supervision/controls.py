"""Pause, resume and drain of a live run: when each is refused, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from orchestration.catch_up import UpToNow, held_in_words
from orchestration.operations import live_run, stopping
from sources.common.durations import in_full
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, RunError, StateError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.state.action_log import recorded
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.requested_state import (
    RequestedState,
    in_words,
    read_requested,
    write_requested,
)

_POLL_S = 0.5
DRAINED = "drained: all input that was there by then is committed"
"""Reason of a live run that was drained; a stopped one has none."""


def live_source(loaded: LoadedPipeline) -> FileSource | KafkaSource:
    """Return the unbounded source that a pipeline ends in, which its live run reads.

    Raises:
        InputError: The pipeline ends with a bounded source.
    """
    last = loaded.pipeline.sources[-1]
    if last.boundedness is Boundedness.BOUNDED:
        name = loaded.pipeline.name
        message = (
            f"Pipeline `{name}` ends with the bounded source `{last.name}`, so it has no live run "
            "to pause, resume or drain."
        )
        hint = "Stop its bounded run with `hybrid stop P`; continue it with `hybrid run P`."
        raise InputError(message, hint, pipeline=name, source=last.name)
    return last


def pause(loaded: LoadedPipeline, why: str = "", by: str = "") -> bool:
    """Stop the live run until people resume it; an unfinished micro-batch is repeated then.

    Unlike a stopped run, it is shown as paused: since when, by whom, why, and how much waits. A run
    that is paused already keeps the first reason.

    Args:
        loaded: The pipeline.
        why: A reason to show; empty for none.
        by: Who asked for it, to show; empty if unknown.

    Returns:
        Whether a Spark run was there to be ended.

    Raises:
        InputError: The pipeline has no live run.
        StateError: Nothing was planned yet, or the live run was stopped or never started, so there
            is nothing to pause.
        RunError: The run can't be ended from this machine, or its cluster did not end it; it may
            still be writing.
        UnavailableError: The cluster does not answer.
    """
    source = live_source(loaded)
    generation = loaded.require_generation()
    before = read_requested(generation)
    if before is None or not (before.is_requested or before.is_paused):
        which = generation.name
        message = (
            f"The live run of `{source.name}` was {in_words(before)}: there is nothing to pause."
        )
        start = "`hybrid run P`" if before is None else f"`hybrid resume P --generation {which}`"
        hint = f"{start} starts it; `hybrid stop P --generation {which}` ends a run of history."
        raise StateError(message, hint, source=source.name)
    if before.is_paused:
        return run_control.stop(generation, source.name)
    live = {"live run": in_words(before)}
    with recorded(loaded.state, "pause", by, generation.name, live) as after:
        paused = RequestedState(
            source=source.name,
            is_requested=False,
            at_ms=now_ms(),
            is_paused=True,
            why=why.strip(),
            by=by.strip(),
        )
        write_requested(generation, paused)
        after["live run"] = in_words(paused)
        if paused.why:
            after["why"] = paused.why
        return run_control.stop(generation, source.name)


def resume(loaded: LoadedPipeline, by: str = "") -> Heartbeat:
    """Start a paused, stopped or drained live run; it stays requested from then on.

    This also clears a failure for which the supervision did not restart the run.

    Args:
        loaded: The pipeline.
        by: Who asked for it; empty if unknown.

    Returns:
        The first heartbeat of a run that has committed a batch, or that has nothing to read.

    Raises:
        InputError: The pipeline has no live run.
        StateError: Nothing was planned yet, an earlier source has not finished, the plan is not
            approved, or another run is active.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        RunError: Spark failed before its first batch; the run stays requested.
        UnavailableError: A broker does not answer, or a cluster does not say whether a run is
            active.
    """
    source = live_source(loaded)
    return live_run.go_live(PipelineContext.require(loaded), source, by=by)


def drain(
    loaded: LoadedPipeline,
    within: timedelta,
    on_left: Callable[[int], None] = lambda _: None,
    by: str = "",
) -> None:
    """Let the live run commit all input that exists now, then stop it; wait until that is done.

    Of a captured table, changes that the database's log holds now and that the connector has not
    read yet count, too. What arrives in the meantime may be included or not; a resumed run
    continues right after what is.

    Args:
        loaded: The pipeline.
        within: How long to wait. After that the run continues as if it had not been drained.
        on_left: Called at each look (every 0.5 s) with the number of records, or of files and
            splits, that are not committed yet.
        by: Who asked for it; empty if unknown.

    Raises:
        InputError: The pipeline has no live run, or its topics or folder can't be read.
        StateError: Nothing was planned yet, or the live run is not running.
        RunError: The run ended before it was drained, it was not drained in time (the message names
            how much is left), no connector reads the captured database's log, or the run can't be
            ended from this machine.
        UnavailableError: The broker, the store, the captured database or the cluster does not
            answer.
    """
    source = live_source(loaded)
    generation = loaded.require_generation()
    if run_control.find_running(generation, source.name) is None:
        message = f"The live run of `{source.name}` is not running: nothing was drained or changed."
        hint = f"Start it with `hybrid resume P --generation {generation.name}`, then drain it."
        raise StateError(message, hint, source=source.name)
    deadline = time.monotonic() + within.total_seconds()
    until_now = UpToNow(PipelineContext(loaded, generation))
    left: int | None = None
    while True:
        beat = run_control.find_running(generation, source.name)
        if beat is None:
            raise _ended(generation, source.name, until_now.in_words(left) if left else "")
        left = until_now.left(beat)
        on_left(left)
        if until_now.is_committed:
            break
        if time.monotonic() > deadline:
            message = (
                f"`{source.name}` is not drained after {in_full(within.total_seconds() * 1000)}: "
                f"{until_now.in_words(left)}."
            )
            if held := until_now.held():
                message += f" {held_in_words(held)}"
            hint = (
                "The run continues. Drain it again and give it longer (`within`), or end it by "
                f"`hybrid stop P --generation {generation.name}`: what is left is read once it is "
                "resumed."
            )
            raise RunError(message, hint, transient=False, source=source.name)
        time.sleep(_POLL_S)
    stopping.stop(loaded, by.strip(), action="drain", why=DRAINED)


def _ended(generation: Generation, name: str, left: str) -> RunError:
    last = read_heartbeat(generation, name)
    failure = None if last is None else last.failure
    rest, which = f": {left}" if left else "", generation.name
    message = f"The live run of `{name}` ended before it was drained{rest}."
    if failure is None:
        hint = (
            f"Read why with `hybrid logs P --generation {which}`, start it with `hybrid resume P "
            f"--generation {which}`, then drain it. What is committed stays."
        )
        return RunError(message, hint, source=name)
    message = f"{message} {failure.message}"
    return RunError(message, failure.hint, transient=failure.transient, source=name)
