"""Launcher of local drivers: SIGTERM, SIGKILL after 25 s; another machine's can't be ended here.

A run is a process group of its own: ``spark-submit``'s JVM, with the Python driver as its child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeGuard

from sources.errors import RunError
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.run_state import run_log
from spark_jobs.run_state.driver_lock import is_launched
from spark_jobs.run_state.driver_process import is_driver
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat

GRACE_S = 20.0
_JVM_EXIT_S = 5.0
_POLL_S = 0.1


class LocalLauncher:
    """Launcher of local drivers, which are processes of the launching machine.

    Args:
        generation: State folder of the generation that the drivers compute.
        log: The run's log file, which the driver prints to.
        process: ``spark-submit``, if this process started it; else None.
    """

    def __init__(
        self, generation: Generation, log: Path, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._generation = generation
        self._log = log
        self._process = process

    def status(self, _: Launch) -> DriverStatus:
        """Return whether the launch's process runs, or has ended and how.

        Other processes than the one that started it see the launch lock only, so that they don't
        know whether it succeeded.

        Raises:
            StateError: The lease of the launch is damaged.
            UnavailableError: The state's store does not answer.
        """
        if self._process is None:
            return DriverStatus("running" if is_launched(self._generation) else "ended")
        status = self._process.poll()
        if status is None:
            return DriverStatus("running")
        return DriverStatus("ended", is_good=status == 0, reason=f"with status {status}")

    def stop(self, launch: Launch) -> None:
        """End the launch's processes: SIGTERM, then SIGKILL after at most 25 s; wait for their end.

        No error if they have ended already.

        Raises:
            RunError: The run is active, and another machine launched it.
            StateError: The heartbeat or the lease of the launch is damaged.
            UnavailableError: The state's store does not answer.
        """
        if launch.group is not None and self._is_running(launch):
            if not launch.is_from_here:
                raise launched_elsewhere(launch, self._generation)
            beat = read_heartbeat(self._generation, launch.source)
            with contextlib.suppress(ProcessLookupError):
                # Only the driver: a JVM that gets the signal too is gone before the query stops.
                if self._is_driven_by(beat, launch):
                    os.kill(beat.pid, signal.SIGTERM)
                else:
                    os.killpg(launch.group, signal.SIGTERM)
            wait_until(lambda: not self._is_running(launch), GRACE_S)
            end_group(launch.group)
        elif self._process is not None:
            end_group(self._process.pid)

    def logs(self, _: Launch, lines: int) -> str:
        """Return the last lines of the run's log file; empty before the file exists."""
        return run_log.last_lines(self._log, lines)

    def _is_driven_by(self, beat: Heartbeat | None, launch: Launch) -> TypeGuard[Heartbeat]:
        if beat is None or beat.launch_id != launch.launch_id:
            return False
        return is_driver(self._generation, beat.pid)

    def _is_running(self, launch: Launch) -> bool:
        return self.status(launch).state == "running"


def launched_elsewhere(launch: Launch, generation: Generation) -> RunError:
    """Return the error, for the caller to raise, that another machine launched the run.

    A process can be ended on its own machine only; the hint names it.

    Args:
        launch: The record of the launch.
        generation: The generation whose run it is, which the command has to name.
    """
    message = (
        f"The run of `{launch.source}` was launched on {launch.host}, where it may still be "
        "running and writing; a local process can be ended only on its own machine."
    )
    hint = f"Run `hybrid stop P --generation {generation.name}` on {launch.host}."
    return RunError(message, hint, source=launch.source, server=launch.host)


def end_group(group: int) -> None:
    """Wait up to 5 s for all processes of a group to end, then kill the rest.

    Returns when all have ended, or 5 s after SIGKILL: until they have ended they hold their locks,
    and would count as a run.

    Args:
        group: Number of the process group; no error if it has no process.
    """
    wait_until(lambda: not _group_alive(group), _JVM_EXIT_S)
    kill_group(group)
    wait_until(lambda: not _group_alive(group), _JVM_EXIT_S)


def kill_group(group: int) -> None:
    """Send SIGKILL to all processes of a group; no error if none is left. Does not wait."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds, or some seconds are over; it is checked every 0.1 s.

    Returns in either case: a caller that has to know checks the condition again.
    """
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _group_alive(group: int) -> bool:
    # A zombie still answers to signals: reap it if it is ours.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    # Orphans that nobody reaps, as in a container without an init, stay zombies and answer, too.
    states = list(_states(group))
    return not states or any(state not in "ZX" for state in states)


def _states(group: int) -> Iterator[str]:
    """Yield the states of a group's processes as Linux's ``/proc`` has them; none elsewhere."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of) == group:
                yield state
