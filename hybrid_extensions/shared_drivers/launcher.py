"""Launcher of runs in a shared driver: each is known by its lock; a frozen driver is killed.

A run holds the launch lock of its generation as a driver of its own does, so that whether it is
there is known by that lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from hybrid_extensions.shared_drivers.requests import Request, ask, log_of, pid_of
from sources.errors import RunError
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.launch.places.local import end_group, launched_elsewhere, wait_until
from spark_jobs.run_state import run_log
from spark_jobs.run_state.driver_lock import is_launched

STOP_S = 60.0
"""Seconds within which a run in a shared driver has ended that was asked to."""


class SharedLauncher:
    """Launcher of one generation's runs in a driver that several pipelines share.

    Args:
        generation: State folder of the generation.
        log: The run's log file, which the driver prints to.
        folder: The driver's folder on the machine that launched it.
    """

    def __init__(self, generation: Generation, log: Path, folder: Path) -> None:
        self._generation = generation
        self._log = log
        self._folder = folder

    def status(self, _: Launch) -> DriverStatus:
        """Return ``running`` or ``ended`` by the launch lock; never whether the run succeeded.

        Raises:
            StateError: The lease of the generation is damaged.
            UnavailableError: The state's store does not answer.
        """
        return DriverStatus("running" if is_launched(self._generation) else "ended")

    def stop(self, launch: Launch) -> None:
        """End the run and wait for its end, leaving the driver's other runs alone.

        No error if it has ended already. A driver that is frozen, so that none of its runs works,
        is killed.

        Raises:
            InputError: The process at the driver's socket is of another user; nothing was sent.
            StateError: The lease of the generation is damaged.
            RunError: The run does not end within 60 s, or another machine launched it.
            UnavailableError: The state's store does not answer.
        """
        if not self._is_running():
            return
        if not launch.is_from_here:
            raise launched_elsewhere(launch, self._generation)
        self.end_run(launch.launch_id, launch.source)

    def end_run(self, launch_id: str, source: str) -> None:
        """End the run of a launch on this machine, leaving the driver's other runs alone.

        A driver that does not answer is killed, and the runs of other pipelines in it end, too.

        Args:
            launch_id: Id of the launch.
            source: Name of the source that it reads, for the message.

        Raises:
            InputError: The process at the driver's socket is of another user; nothing was sent.
            StateError: The lease of the generation is damaged.
            RunError: The run does not end within 60 s.
            UnavailableError: The state's store does not answer.
        """
        try:
            ask(self._folder, Request(stop=launch_id))
        except TimeoutError:
            self._kill()
        wait_until(lambda: not self._is_running(), STOP_S)
        if self._is_running():
            pid = pid_of(self._folder)
            message = (
                f"The run of `{source}` was told to stop and has not ended within {STOP_S:.0f} s."
            )
            hint = "Run `hybrid stop P` again."
            if pid is not None:
                message += f" Its driver, process {pid}, is shared, so it was not killed."
                hint += (
                    f" If that does not help, `kill -9 {pid}` ends all runs of the driver; the "
                    "supervision starts those of other pipelines again, after their last committed "
                    "micro-batch."
                )
            raise RunError(message, hint, source=source)

    def logs(self, _: Launch, lines: int) -> str:
        """Return the last lines of the run's log, or of the driver's if the run printed nothing.

        Empty if neither printed any.
        """
        return run_log.last_lines(self._log, lines) or run_log.last_lines(
            log_of(self._folder), lines
        )

    def _is_running(self) -> bool:
        return is_launched(self._generation)

    def _kill(self) -> None:
        if (pid := pid_of(self._folder)) is not None:
            end_group(os.getpgid(pid))
