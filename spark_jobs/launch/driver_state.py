"""State of a launched driver: when it counts as running, ended, replaced or unknown.

Only reads. All rules are here by which a driver counts as running, ended, or replaced by another
one.
"""

from __future__ import annotations

import time

from sources.errors import StateError, UnavailableError
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import Launch, last_launch, log_of
from spark_jobs.launch.places.base import DriverStatus, Launcher
from spark_jobs.launch.places.choice import launcher_at
from spark_jobs.run_state import run_log
from spark_jobs.run_state.driver_lock import is_held, is_launched, seen_lease
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, read_heartbeat

ASK_AGAIN_S = 5.0
"""Seconds for which an answer of a cluster is used again: one question may start a JVM."""


class DriverState:
    """State of the Spark driver of one launch, as other processes see it; only reads.

    Args:
        generation: State folder of the generation that the driver computes.
        launch: The record of its launch.
        launcher: Asks about drivers, and ends them, at the place where this one runs.
    """

    def __init__(self, generation: Generation, launch: Launch, launcher: Launcher) -> None:
        self.generation = generation
        self.launch = launch
        self.launcher = launcher
        self._answer: tuple[float, DriverStatus] | None = None

    @classmethod
    def of(cls, generation: Generation, launch: Launch) -> DriverState:
        """Make the state of a recorded launch's driver, with the launcher of its place.

        Raises:
            InputError: No installed extension knows the place where the driver runs.
        """
        log = log_of(generation, launch)
        return cls(generation, launch, launcher_at(launch.place, generation, log))

    @property
    def source(self) -> str:
        """Name of the source that the driver reads, from the launch's record."""
        return self.launch.source

    @property
    def is_on_cluster(self) -> bool:
        """Whether it runs on a cluster, not as a process of the launching machine."""
        return self.launch.place.is_cluster

    def beat(self) -> Heartbeat | None:
        """Read the latest heartbeat of this launch; None if its driver has written none yet.

        Raises:
            StateError: The heartbeat's file is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        beat = read_heartbeat(self.generation, self.launch.source)
        is_own = beat is not None and beat.launch_id == self.launch.launch_id
        return beat if is_own else None

    def status(self) -> DriverStatus:
        """Return the driver's state as its launcher reports it.

        A cluster is asked at most every 5 s: until then the last answer is returned again. One that
        does not answer leads to the state ``unknown``, not to an error.

        Raises:
            StateError: The driver is local, and the lease of its launch is damaged.
            UnavailableError: The driver is local, and the state's store does not answer.
        """
        if self._answer is not None and self.is_on_cluster:
            asked_at, status = self._answer
            if time.monotonic() - asked_at < ASK_AGAIN_S:
                return status
        status = self.launcher.status(self.launch)
        self._answer = time.monotonic(), status
        return status

    @property
    def known_status(self) -> DriverStatus | None:
        """Last status from the launcher, kept in memory; None before a call of :meth:`status`."""
        return None if self._answer is None else self._answer[1]

    def recorded(self) -> Launch | None:
        """Read this launch's present record; None if there has been a later launch.

        Its ``source`` differs from ``launch`` once the driver has switched to another source.

        Raises:
            StateError: The launch's record is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        last = last_launch(self.generation)
        return last if last is not None and last.launch_id == self.launch.launch_id else None

    def is_over(self) -> bool:
        """Return whether the driver's last heartbeat says that it ended; its process may remain.

        False without a heartbeat, and for a driver that was killed, as neither reports its end.

        Raises:
            StateError: The heartbeat is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        beat = self.beat()
        return beat is not None and beat.state not in ALIVE

    def is_current(self) -> bool:
        """Return whether the driver is starting or running, so that no other may be started.

        False for processes that remain after their driver has reported its end or lost its lock.
        True for a driver on a cluster that does not answer.

        Raises:
            StateError: The heartbeat or a lease is damaged.
            UnavailableError: The state's store does not answer.
        """
        if self.is_over():
            return False
        if self.is_on_cluster:
            return self.is_there()
        seen = seen_lease(self.generation)
        if seen is not None and seen.holder != self.launch.launch_id:
            # Recorded by a process that was suspended while it launched, after the lease was lost.
            return False
        is_driven = self.beat() is None or is_held(self.generation)
        return is_driven and is_launched(self.generation)

    def is_there(self) -> bool:
        """Return whether a cluster runs the driver, or a ``spark-submit`` is submitting it.

        True, too, if the cluster does not answer: only a reported end counts as an end.

        Raises:
            StateError: The heartbeat or a lease is damaged.
            UnavailableError: The state's store does not answer.
        """
        if is_launched(self.generation) or self._is_heard():
            return True
        return self.status().state != "ended"

    def has_switched(self) -> bool:
        """Return whether the driver has finished its source and now reads a later one of the chain.

        False once there is a later launch.

        Raises:
            StateError: The launch's record is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        recorded = self.recorded()
        if recorded is None:
            return False
        return self.launch.source not in (recorded.source, *recorded.then)

    def is_switching_to(self, source: str) -> bool:
        """Return whether the living driver has finished its source and reads ``source`` next.

        Raises:
            StateError: The heartbeat or a lease is damaged.
            UnavailableError: The state's store does not answer.
        """
        beat = self.beat()
        is_done = beat is not None and beat.state == "finished" and is_held(self.generation)
        return is_done and self.launch.then[:1] == [source]

    def last_lines(self, count: int) -> str:
        """Return the last lines that the driver printed, as one text.

        Those of ``spark-submit`` if the driver's are not available. If this machine has neither,
        those of the copy that the state has of the log; empty without one.

        Args:
            count: Most lines.

        Raises:
            UnavailableError: The state's store does not answer.
        """
        log = log_of(self.generation, self.launch)
        own = self.launcher.logs(self.launch, count) or run_log.last_lines(log, count)
        return own or run_log.kept_lines(self.generation, self.launch.log, count)

    def require_known(self) -> None:
        """Refuse to start another driver while it is unknown whether this one still runs.

        Raises:
            StateError: The heartbeat or a lease is damaged.
            UnavailableError: Its cluster does not answer, and no heartbeat shows that it runs; or
                the state's store does not answer.
        """
        if self.is_on_cluster and not self._is_heard() and self.status().state == "unknown":
            message = (
                f"It is unknown whether the driver of `{self.source}` that was launched last still "
                f"runs and writes to the table: {self.status().reason}."
            )
            hint = (
                "Nothing was started, since two drivers must not share a checkpoint. Check whether "
                "the cluster can be reached, then try again."
            )
            raise UnavailableError(message, hint, source=self.source)

    def require_source(self, source: str) -> None:
        """Refuse to run a source while this driver reads another one.

        Raises:
            StateError: The driver reads another source (transient).
        """
        if self.source != source:
            message = (
                f"A run of `{self.source}` is active, so `{source}` can't be started: a generation "
                "has one Spark driver at a time."
            )
            hint = (
                f"Wait until the run of `{self.source}` has ended, or end it with `hybrid stop P "
                f"--generation {self.generation.name}`, then try again."
            )
            raise StateError(message, hint, transient=True, source=self.source)

    def _is_heard(self) -> bool:
        """Return whether its heartbeat says that it runs, and it holds its lock."""
        beat = self.beat()
        return beat is not None and beat.state in ALIVE and is_held(self.generation)
