"""Runs of sources: find one or launch one, at most one per generation; how the last one ended."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.state.generation import Generation
from sources.state.local_copy import local_path
from spark_jobs.launch.driver_state import DriverState
from spark_jobs.launch.launch_record import (
    LAUNCH,
    Launch,
    Place,
    last_launch,
    log_name,
    log_of,
    record_group,
    record_launch,
)
from spark_jobs.launch.places.base import Order, start
from spark_jobs.launch.places.choice import driver_place, launcher_at
from spark_jobs.launch.places.cluster import cluster_at
from spark_jobs.launch.places.local import GRACE_S
from spark_jobs.launch.places.managed import drivers_at
from spark_jobs.launch.places.shared import shared_drivers
from spark_jobs.launch.submission import submit
from spark_jobs.launch.waiting_driver import WaitingDriver
from spark_jobs.launch.watched_run import WatchedRun
from spark_jobs.run_state import run_log
from spark_jobs.run_state.driver_lock import (
    is_held,
    launch_lock_path,
    seen_lease,
    take_launch_lock,
)
from spark_jobs.run_state.driver_process import is_driver
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.lock import Lock

_StartRun = Callable[[Path, tuple[int, ...]], tuple[int, subprocess.Popen[bytes] | None]]
"""Starts a run with its log file, and the descriptors that it has to hold.

Returns the process that runs it, and the process itself if it is one of this run alone.
"""


def find_run(generation: Generation, source: str) -> WatchedRun | None:
    """Find the starting or running run of a source, by the record of the last launch; else None.

    A driver on a cluster that does not answer counts as running. So does a driver that has just
    finished the preceding source and reads this one next.

    Args:
        generation: State folder of the generation.
        source: Name of the source.

    Raises:
        InputError: No installed extension knows the place of its driver.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    driver = last_driver(generation)
    if driver is None:
        return None
    if driver.source == source:
        return WatchedRun(driver) if driver.is_current() else None
    if not driver.is_switching_to(source):
        return None
    switched = driver.launch.model_copy(update={"source": source})
    return WatchedRun(DriverState(generation, switched, driver.launcher))


def last_driver(generation: Generation) -> DriverState | None:
    """Return the state of the last launch's driver, running or not; None if there was no launch.

    Raises:
        InputError: No installed extension knows the place of the driver.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    launch = last_launch(generation)
    return None if launch is None else DriverState.of(generation, launch)


def why_ended(generation: Generation, source: str) -> str | None:
    """Return how a source's last driver on a cluster ended, in the cluster's words.

    Such as ``as FAILED on YARN (…)``, or why that is unknown. None if the cluster gives no reason,
    the driver was local, or another source was launched since.

    Args:
        generation: State folder of the generation.
        source: Name of the source.

    Raises:
        InputError: No installed extension knows the place of the driver.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    driver = last_driver(generation)
    if driver is None or driver.source != source or not driver.is_on_cluster:
        return None
    return driver.status().reason or None


def last_lines(
    generation: Generation, lines: int, *, previous: bool = False
) -> tuple[str, str] | None:
    """Return the source that was launched last, and the last lines that its driver printed.

    The lines are one text, empty if none are available. None if nothing was ever launched.

    Args:
        generation: State folder of the generation.
        lines: Most lines.
        previous: Return the lines of the launch before the last, such as of a driver that was
            killed and restarted; only the machine that launched it has them.

    Raises:
        InputError: No installed extension knows the place of the driver.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    driver = last_driver(generation)
    if driver is None:
        return None
    if previous:
        log = run_log.previous(log_of(generation, driver.launch))
        return driver.source, run_log.last_lines(log, lines)
    return driver.source, driver.last_lines(lines)


def find_or_launch(
    loaded: LoadedPipeline,
    generation: Generation,
    sources: Sequence[str],
    extra: Mapping[str, str],
    waiting: WaitingDriver | None = None,
) -> WatchedRun:
    """Return the run of a source, launching it if there is none; at most one per generation.

    Does not wait for Spark. Of two processes that launch at once, one does, and the other finds its
    run.

    Args:
        loaded: The pipeline.
        generation: State folder of the generation (one computation of the whole table).
        sources: The source, and those that a driver launched here reads after it.
        extra: More environment variables for a job that is launched on this machine.
        waiting: A driver that waits for its run, or None; it is ended if it is not used.

    Raises:
        StateError: Another source's run is active, or the state can't be read or written.
        InputError: The launch is refused, such as for a missing tool or variable.
        UnavailableError: It is unknown whether a driver runs, as its cluster does not answer.
    """
    source, *then = sources
    if (running := find_run(generation, source)) is not None:
        running.driver.require_known()
        if waiting is not None:
            waiting.end()
        return running
    launch_id = uuid.uuid4().hex
    # Whatever may be refused or takes time is done before the lock is taken.
    place = driver_place(loaded.pipeline.spark)
    if place.is_cluster and not place.is_managed:
        cluster_at(place).require_tool()
    locked: Lock | WatchedRun | None = None
    if waiting is not None and (locked := waiting.take_lock(loaded, generation)) is not None:
        launch_id, start_run = waiting.launch_id, _by_waiting(waiting, generation, sources, extra)
    else:
        start_run = _way_of(loaded, generation, sources, launch_id, extra, place)
        locked = _lock_or_find(loaded, generation, source, launch_id)
    if isinstance(locked, WatchedRun):
        return locked
    try:
        last = last_launch(generation)
        if (running := _require_none_active(loaded, generation, source, last)) is not None:
            return running
        launch = Launch(
            launch_id=launch_id,
            source=source,
            then=then,
            log=log_name(source),
            group=None,
            at_ms=now_ms(),
            place=place,
        )
        log = local_path(generation, launch.log)
        record_launch(generation, last, launch)
        pid, process = start_run(log, locked.descriptors)
        if process is not None:
            record_group(generation, launch_id, pid)
        locked.hand_over(pid)
    finally:
        locked.release()
    launcher = launcher_at(place, generation, log, process)
    return WatchedRun(DriverState(generation, launch, launcher), process)


def _way_of(
    loaded: LoadedPipeline,
    generation: Generation,
    sources: Sequence[str],
    launch_id: str,
    extra: Mapping[str, str],
    place: Place,
) -> _StartRun:
    """Prepare a launch, and return the function that starts it, in a driver of its own or shared.

    Called before the lock is taken: whatever may be refused is refused, and whatever takes time is
    done here.
    """
    if place.folder is not None:
        driver = shared_drivers().driver(loaded, Path(place.folder))
        driver.require()
        name = generation.name
        return lambda log, held: (
            driver.run(sources, launch_id, name, log, dict(extra), held),
            None,
        )
    scratch = submit.scratch_folder(launch_id)
    if place.is_managed:
        drivers = drivers_at(place)
        prepare, command = drivers.hand_over(
            loaded, place, scratch, sources, launch_id, generation.name
        )
    else:
        command = submit.command(loaded, sources, launch_id, generation.name)
        prepare = partial(submit.prepare_scratch, loaded, scratch)
    environment = {**submit.environment(loaded, scratch), **extra}

    def start_own(log: Path, descriptors: tuple[int, ...]) -> tuple[int, subprocess.Popen[bytes]]:
        prepare()
        submit.claim_scratch(scratch, generation)
        process = start(Order(command, environment, loaded.folder, log, descriptors))
        return process.pid, process

    return start_own


def _by_waiting(
    waiting: WaitingDriver,
    generation: Generation,
    sources: Sequence[str],
    extra: Mapping[str, str],
) -> _StartRun:
    """Return the function that gives a run to the driver that waits for it."""
    return lambda log, _: waiting.run(generation, sources, log, extra)


def _lock_or_find(
    loaded: LoadedPipeline, generation: Generation, source: str, launch_id: str
) -> Lock | WatchedRun:
    """Take the launch lock, or return the run that another process launched in the meantime."""
    deadline = time.monotonic() + GRACE_S
    while (lock := take_launch_lock(generation, launch_id)) is None:
        if (running := find_run(generation, source)) is not None:
            return running
        found = last_driver(generation)
        if found is not None and found.is_current():
            found.require_source(source)
        if time.monotonic() > deadline + GRACE_S:
            if is_held(generation):
                raise _unrecorded(loaded, generation)
            name, lock_file = loaded.pipeline.name, launch_lock_path(generation)
            message = (
                f"Another process has held the launch lock of pipeline `{name}`, {lock_file}, for "
                f"{2 * GRACE_S:.0f} s, and no driver came up. Nothing was started here."
            )
            who = " (`fuser` names it)" if generation.is_local else ""
            hint = f"End the process that holds the lock{who}, then try again."
            raise StateError(message, hint, pipeline=name, file=lock_file)
        if time.monotonic() > deadline and found is not None:
            # Its driver has ended, the process that started it has not.
            WatchedRun(found).kill_remains()
    return lock


def _unrecorded(loaded: LoadedPipeline, generation: Generation) -> StateError:
    """Return the error to raise where a driver runs that no launch record names."""
    lock_file, seen = launch_lock_path(generation), seen_lease(generation)
    beats = (read_heartbeat(generation, each.name) for each in loaded.pipeline.sources)
    # The last heartbeat may be that of a driver before, whose number is somebody else's by now.
    reported = (beat for beat in beats if beat is not None and is_driver(generation, beat.pid))
    who = seen if seen is not None else next(reported, None)
    place = "in an unknown process" if who is None else f"in process {who.pid} on {who.host}"
    end = "end it where it runs" if who is None else f"end it by `kill {who.pid}` on {who.host}"
    name, record = loaded.pipeline.name, generation.location(LAUNCH)
    message = (
        f"A driver of pipeline `{name}` runs ({place}) and holds {lock_file}, but {record} does "
        "not name it: that file was removed, or the driver was started by hand. Nothing was "
        "started here."
    )
    hint = (
        f"Restore {record} from a backup, or {end}, which stops its query in order. Then try "
        "again: it resumes after the last committed micro-batch."
    )
    return StateError(message, hint, transient=True, pipeline=name, file=record)


def _require_none_active(
    loaded: LoadedPipeline, generation: Generation, source: str, last: Launch | None
) -> WatchedRun | None:
    """Make sure that nothing else runs, now that this process may launch.

    Args:
        loaded: The pipeline.
        generation: State folder of the generation.
        source: The source that is to be launched.
        last: The last launch; None if there was none.

    Returns:
        The source's own run if a cluster has it, though no process on a machine knows of it.
    """
    if is_held(generation):
        name = loaded.pipeline.name
        message = (
            f"Another run of pipeline `{name}` is active, so `{source}` can't be started: a "
            "generation has one Spark driver at a time."
        )
        hint = (
            "Wait until that run has ended (`hybrid status P`), or end it with `hybrid stop P "
            f"--generation {generation.name}`, then try again."
        )
        raise StateError(message, hint, transient=True, pipeline=name)
    found = None if last is None else DriverState.of(generation, last)
    if found is None or not found.is_on_cluster or found.status().state == "ended":
        return None
    if found.is_over():
        WatchedRun(found).end_on_cluster()
        return None
    found.require_source(source)
    found.require_known()
    return WatchedRun(found)
