"""Control of runs: launch and wait for the end or the first batch, find a living one, stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import last_launch, log_path
from spark_jobs.launch.places.local import GRACE_S, wait_until
from spark_jobs.launch.places.shared import installed_drivers
from spark_jobs.launch.runs import find_or_launch, find_run
from spark_jobs.launch.waiting_driver import WaitingDriver
from spark_jobs.launch.watched_run import OnOutput
from spark_jobs.run_state.driver_lock import (
    is_held,
    is_launched,
    query_lock_path,
    seen_lease,
)
from spark_jobs.run_state.driver_process import is_driven_here, is_driver
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, read_heartbeat

OnBeat = Callable[[Heartbeat], None]
"""Called with each new heartbeat."""
_RELEASE_S = 2.0


class Means(NamedTuple):
    """What a launching process gives to a driver.

    Attributes:
        environment: More environment variables for its job.
        waiting: A driver that waits for its run, to be used instead of a new one; None without one.
    """

    environment: Mapping[str, str] = MappingProxyType({})
    waiting: WaitingDriver | None = None


def run_to_end(
    loaded: LoadedPipeline,
    generation: Generation,
    sources: Sequence[str],
    on_beat: OnBeat = lambda _: None,
    on_output: OnOutput = lambda _: None,
    means: Means | None = None,
) -> None:
    """Launch the run of a bounded source, or find it running, and wait until it has ended well.

    If this process is interrupted, Spark is ended, too.

    Args:
        loaded: The pipeline.
        generation: State folder of the generation (one computation of the whole table).
        sources: The source, and those that a driver launched here reads after it; only the first
            one is waited for.
        on_beat: Called with each new heartbeat.
        on_output: Called with each line of the run's own output.
        means: What a driver that is launched here is given; None for nothing.

    Raises:
        DriverError: The run failed; carries exit status, cause and last lines of its log.
        RunError: The driver wrote no heartbeat for longer than ``supervision.stuck_after`` and
            ``end_stuck_after`` together, so that it was ended; or it can't be ended from here.
        StateError: A run of another source is active.
        UnavailableError: A cluster does not say whether a run is active.
        InputError: Java, Spark, a jar or the cluster's command line tool is missing.
    """
    means = means or Means()
    run = find_or_launch(loaded, generation, sources, means.environment, means.waiting)
    expected = loaded.pipeline.supervision
    try:
        for beat in run.beats(on_output, expected.stuck_after + expected.end_stuck_after):
            on_beat(beat)
    except BaseException:
        run.end()
        raise
    if not run.driver.has_switched():
        run.end()
        run.require_good_end()


def start_detached(
    loaded: LoadedPipeline,
    generation: Generation,
    source: str,
    on_beat: OnBeat = lambda _: None,
    waiting: WaitingDriver | None = None,
) -> Heartbeat:
    """Start an unbounded source, or find it running; return once its first batch is committed.

    The run is a process of its own and outlives this one. With nothing to read, waiting for data
    counts as a first batch. If this process is interrupted before that, Spark is ended, too. Waits
    without a limit, as long as the run is alive.

    Args:
        loaded: The pipeline.
        generation: State folder of the generation (one computation of the whole table).
        source: Name of the source.
        on_beat: Called with each new heartbeat until then.
        waiting: A driver that waits for its run; None if there is none.

    Returns:
        The heartbeat that reported the first batch.

    Raises:
        DriverError: The run ended before that; carries the cause, or the last lines of its log.
        StateError: A run of another source of this generation is active.
        UnavailableError: A cluster does not say whether a run is active.
        InputError: Java, Spark, a jar or the cluster's command line tool is missing.
    """
    run = find_or_launch(loaded, generation, [source], {}, waiting)
    try:
        for beat in run.beats():
            on_beat(beat)
            if beat.state == "running" and (beat.batches or beat.idle):
                return beat
    except BaseException:
        run.end()
        raise
    run.end()
    raise run.failure()


def find_running(generation: Generation, source: str) -> Heartbeat | None:
    """Read the latest heartbeat of a source's run if its driver is alive; else None.

    Alive means that it holds the generation's query lock. A driver on another machine is seen only
    if the state folder's file system shares locks, or the state is in a store. A driver that was
    killed leaves a heartbeat that says ``running``: it is not taken for the one that holds the lock
    now, such as that of the next source.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    beat = read_heartbeat(generation, source)
    if beat is None or beat.state not in ALIVE or not is_held(generation):
        return None
    return None if _is_of_another_run(generation, beat) else beat


def stop(generation: Generation, source: str) -> bool:
    """End the run of a source, so that the next one resumes after its last committed batch.

    A driver on this machine gets SIGTERM, on which it ends the query cleanly, then SIGKILL. One
    that was started by hand, or whose launch record was deleted, gets SIGTERM only, and at most
    20 s are waited; a shared one ends this run alone. A driver on a cluster is ended by the
    cluster.

    Args:
        generation: State folder of the generation that the run computes.
        source: Name of the source.

    Returns:
        Whether there was a run to end.

    Raises:
        RunError: The run can't be ended from this machine, its heartbeat is of another process, or
            the cluster did not end it; the driver may still be writing.
        UnavailableError: The cluster does not answer; the driver may still be writing.
        InputError: The cluster's command line tool is not installed.
        StateError: The state is damaged.
    """
    if (run := find_run(generation, source)) is not None:
        run.end()
        return True
    beat = find_running(generation, source)
    if beat is None:
        return False
    if beat.host != socket.gethostname():
        message = (
            f"The driver of `{source}`, process {beat.pid} on {beat.host}, still runs; a process "
            "can be ended only on its own machine."
        )
        hint = f"Run `hybrid stop P --generation {generation.name}` on {beat.host}."
        raise RunError(message, hint, source=source, server=beat.host)
    shared = installed_drivers()
    if shared is not None and (folder := shared.folder_of_process(beat.pid)) is not None:
        # Its launch record was deleted: a signal would end the runs of other pipelines as well.
        launcher = shared.launcher(generation, log_path(generation, source), folder)
        launcher.end_run(beat.launch_id, source)
        return True
    if not is_driver(generation, beat.pid):
        # A run that has just ended by itself releases its lock a moment later.
        wait_until(lambda: not is_held(generation), _RELEASE_S)
        if not is_held(generation):
            return False
        raise _held_by_another(generation, beat)
    with contextlib.suppress(ProcessLookupError):
        os.kill(beat.pid, signal.SIGTERM)
    wait_until(lambda: not is_held(generation), GRACE_S)
    return True


def _is_of_another_run(generation: Generation, beat: Heartbeat) -> bool:
    """Return whether the lock is held for another run than the one that a heartbeat is of.

    A driver that was killed leaves a heartbeat that says ``running``, and the one that was launched
    since, such as for the next source, holds the lock.
    """
    if (seen := seen_lease(generation)) is not None:
        return seen.holder not in (None, beat.launch_id)
    if is_driver(generation, beat.pid) or not is_launched(generation):
        return False
    last = last_launch(generation)
    return last is not None and last.launch_id != beat.launch_id


def _held_by_another(generation: Generation, beat: Heartbeat) -> RunError:
    """Return the error, for the caller to raise, that the heartbeat's process is not the driver.

    Whoever holds the query lock is the driver: a process that is seen from here, or one that is
    not, as in another container with the same host name.
    """
    source, lock = beat.source, query_lock_path(generation)
    again = f"`hybrid stop P --generation {generation.name}`"
    message = (
        f"A driver of `{source}` runs, but it is not process {beat.pid}, which its last heartbeat "
        "names: "
    )
    if is_driven_here(generation):
        message += "it has just been started. No process was ended."
        hint = f"Try {again} again in a minute. If it fails, end the driver where it runs."
    else:
        message += (
            f"no process that is seen from here holds its lock {lock}, so it runs in another "
            "container or as another user. No process was ended."
        )
        hint = (
            f"Run {again} where it was started: in the container on {beat.host} that has it, or as "
            "its user."
        )
    return RunError(message, hint, source=source, server=beat.host)
