"""What is known of a launched driver: from its heartbeat, its locks and its launcher.

Only reads. Every rule about whether a driver is there, has ended, or is another one by now is here.
"""

from __future__ import annotations

import time

from sources.common.state import Generation
from sources.errors import StateError, UnavailableError
from spark_jobs.launch.base import Launcher, Status
from spark_jobs.launch.choice import launcher_at
from spark_jobs.launch.record import Launch, last_launch
from spark_jobs.run_state import run_log
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, read_heartbeat
from spark_jobs.run_state.lock import is_held, is_launched

# One question to a cluster may start a JVM.
_ASK_AGAIN_S = 5.0


class DriverState:
    """The driver of one launch, as it can be seen from outside.

    Args:
        generation: Its state.
        launch: The record of its launch.
        launcher: Answers for the place where it runs.
    """

    def __init__(self, generation: Generation, launch: Launch, launcher: Launcher) -> None:
        self.generation = generation
        self.launch = launch
        self.launcher = launcher
        self._answer: tuple[float, Status] | None = None

    @classmethod
    def of(cls, generation: Generation, launch: Launch) -> DriverState:
        """Return the driver of a launch that was recorded."""
        log = generation.path(launch.log)
        return cls(generation, launch, launcher_at(launch.place, generation, log))

    @property
    def source(self) -> str:
        """Name of the source that it reads."""
        return self.launch.source

    @property
    def is_on_cluster(self) -> bool:
        """Whether it runs on a cluster, not as a process of the launching machine."""
        return self.launch.place.is_cluster

    def beat(self) -> Heartbeat | None:
        """Return the latest heartbeat of this launch; None if it has written none."""
        beat = read_heartbeat(self.generation, self.launch.source)
        is_own = beat is not None and beat.launch_id == self.launch.launch_id
        return beat if is_own else None

    def status(self) -> Status:
        """Return what the launcher says; a cluster's answer may be a few seconds old."""
        if self._answer is not None and self.is_on_cluster:
            asked_at, status = self._answer
            if time.monotonic() - asked_at < _ASK_AGAIN_S:
                return status
        status = self.launcher.status(self.launch)
        self._answer = time.monotonic(), status
        return status

    @property
    def known_status(self) -> Status | None:
        """The launcher's last answer, without asking again; None if it was never asked."""
        return None if self._answer is None else self._answer[1]

    def recorded(self) -> Launch | None:
        """Return the present record of this launch; None once there is a later launch."""
        last = last_launch(self.generation)
        return last if last is not None and last.launch_id == self.launch.launch_id else None

    def is_over(self) -> bool:
        """Return whether its heartbeat says that it has ended; it may still be shutting down."""
        beat = self.beat()
        return beat is not None and beat.state not in ALIVE

    def is_current(self) -> bool:
        """Return whether it is starting or running, and not just the remains of a run."""
        if self.is_over():
            return False
        if self.is_on_cluster:
            return self.is_there()
        is_driven = self.beat() is None or is_held(self.generation)
        return is_driven and is_launched(self.generation)

    def is_there(self) -> bool:
        """Return whether a cluster runs it, or is about to; no answer does not count as an end."""
        if is_launched(self.generation) or self._is_heard():
            return True
        return self.status().state != "ended"

    def has_switched(self) -> bool:
        """Return whether it has finished its source and reads a later one by now."""
        recorded = self.recorded()
        if recorded is None:
            return False
        return self.launch.source not in (recorded.source, *recorded.then)

    def is_switching_to(self, source: str) -> bool:
        """Return whether it has finished its source and is about to read `source`."""
        beat = self.beat()
        is_done = beat is not None and beat.state == "finished" and is_held(self.generation)
        return is_done and self.launch.then[:1] == [source]

    def last_lines(self, count: int) -> str:
        """Return the last lines that it printed, or else ``spark-submit``'s."""
        log = self.generation.path(self.launch.log)
        return self.launcher.logs(self.launch, count) or run_log.last_lines(log, count)

    def require_known(self) -> None:
        """Refuse to build on a driver whose state is unknown.

        Raises:
            UnavailableError: The cluster does not answer.
        """
        if self.is_on_cluster and not self._is_heard() and self.status().state == "unknown":
            message = (
                f"It is unknown whether the driver of `{self.source}` that was launched last still "
                f"runs and writes to the table: {self.status().reason}."
            )
            hint = (
                "Nothing was started, since two drivers must not share a checkpoint. Check whether "
                "the cluster can be reached, then run the same command again."
            )
            raise UnavailableError(message, hint, source=self.source)

    def require_source(self, source: str) -> None:
        """Refuse a driver that reads another source.

        Raises:
            StateError: It does.
        """
        if self.source != source:
            message = (
                f"A run of `{self.source}` is active, so `{source}` can't be started: a generation "
                "has one Spark driver at a time."
            )
            hint = (
                f"Wait until the run of `{self.source}` has ended, or end it with `hybrid stop P`, "
                "then run the same command again."
            )
            raise StateError(message, hint, transient=True, source=self.source)

    def _is_heard(self) -> bool:
        """Return whether its heartbeat says that it runs, and it holds its lock."""
        beat = self.beat()
        return beat is not None and beat.state in ALIVE and is_held(self.generation)
