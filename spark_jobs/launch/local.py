"""Drivers on the machine that launches them, wherever their executors are.

A run is a process group of its own: ``spark-submit``'s JVM with the Python driver as its child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from sources.common.state import Generation
from sources.errors import RunError
from spark_jobs.launch.base import Launch, Order, Status, start
from spark_jobs.run_state import run_log
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.lock import is_launched

GRACE_S = 20.0
_JVM_EXIT_S = 5.0
_POLL_S = 0.1


class LocalLauncher:
    """Launches as processes of this machine.

    Args:
        generation: Whose runs they are.
        log: What they print.
    """

    def __init__(self, generation: Generation, log: Path) -> None:
        self._generation = generation
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, order: Order) -> subprocess.Popen[bytes]:
        """Start the run."""
        self._process = start(order)
        return self._process

    def status(self, _: Launch) -> Status:
        """Whether its process is there; if it was not started here, by the lock that it holds."""
        if self._process is None:
            return Status("running" if is_launched(self._generation) else "ended")
        status = self._process.poll()
        if status is None:
            return Status("running")
        return Status("ended", is_good=status == 0, reason=f"with status {status}")

    def stop(self, launch: Launch) -> None:
        """End its processes: gently first, then by force."""
        if launch.group is not None and self._is_running(launch):
            if not launch.is_from_here:
                message = f"The run of `{launch.source}` was launched on {launch.host}."
                raise RunError(message, "End it from there.")
            beat = read_heartbeat(self._generation, launch.source)
            with contextlib.suppress(ProcessLookupError):
                # Only the driver: a JVM that gets the signal too is gone before the query stops.
                if beat is not None and beat.launch_id == launch.launch_id:
                    os.kill(beat.pid, signal.SIGTERM)
                else:
                    os.killpg(launch.group, signal.SIGTERM)
            wait_until(lambda: not self._is_running(launch), GRACE_S)
            end_group(launch.group)
        elif self._process is not None:
            end_group(self._process.pid)

    def logs(self, _: Launch, lines: int) -> str:
        """The end of its log."""
        return run_log.last_lines(self._log, lines)

    def _is_running(self, launch: Launch) -> bool:
        return self.status(launch).state == "running"


def end_group(group: int) -> None:
    """End all processes of a group that do not end by themselves soon; returns when they are gone.

    Until then they hold their locks, and would be found as a run that is there.
    """
    wait_until(lambda: not _group_alive(group), _JVM_EXIT_S)
    kill_group(group)
    wait_until(lambda: not _group_alive(group), _JVM_EXIT_S)


def kill_group(group: int) -> None:
    """End all processes of a group by force."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, but no longer than that."""
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
    return True
