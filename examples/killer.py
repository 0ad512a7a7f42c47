"""Threads beside the pipelines of a captured database; one of them kills all that serves them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.processes import group_of
from examples.captured import CapturedDatabase
from sources.config.loader import LoadedPipeline
from spark_jobs.launch.places.local import kill_group
from spark_jobs.run_state.driver_lock import is_held

_POLL_S = 0.5


class Background(threading.Thread):
    """Thread that does something again and again until it is stopped; its error is raised then."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._stop_now = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Work until there is nothing more to do, or until stopped."""
        try:
            while not self._stop_now.is_set() and self._works():
                pass
        except BaseException as error:
            self._failure = error

    def _works(self) -> bool:
        """Do one thing; return whether there is more to do."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait until there is nothing more to do; raise the thread's error."""
        self.join()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop after the present thing; raise the thread's error."""
        self._stop_now.set()
        self.finish()


@dataclass
class Killed:
    """Numbers of kills by SIGKILL.

    Attributes:
        drivers: Drivers that were killed, with their JVM.
        crashes: Crashes of connector and database, in turns: the connector's first.
    """

    drivers: int = 0
    crashes: int = 0

    @property
    def connectors(self) -> int:
        """How many of the crashes are the connector's, or the change log's."""
        return (self.crashes + 1) // 2

    @property
    def servers(self) -> int:
        """How many of the crashes are the database's."""
        return self.crashes // 2

    @property
    def all(self) -> int:
        """Number of all kills."""
        return self.drivers + self.crashes


class Killer(Background):
    """Thread that kills random drivers, and connector and database in turns, at random times.

    Connector and database are started again; a driver by whoever supervises it.

    Args:
        database: The database with its connector.
        loaded: The pipelines.
        seed: Seed of what is killed, and when.
        asked: How many are to be killed.
        between_s: Shortest and longest time between two kills, in seconds.

    Attributes:
        done: How many were killed so far.
    """

    def __init__(
        self,
        database: CapturedDatabase,
        loaded: Sequence[LoadedPipeline],
        seed: int,
        asked: Killed,
        between_s: tuple[float, float] = (10.0, 60.0),
    ) -> None:
        super().__init__()
        self._database = database
        self._loaded = loaded
        self._asked = asked
        self._between_s = between_s
        self._chance = random.Random(f"kills-{seed}")
        self.done = Killed()

    def _works(self) -> bool:
        if self.done == self._asked:
            return False
        if self._stop_now.wait(self._chance.uniform(*self._between_s)):
            return False
        while self.done.all >= self._asked.all * self._share():
            if self._stop_now.wait(_POLL_S):
                return False
        can_crash = self.done.crashes < self._asked.crashes and self._can_crash()
        if self.done.drivers < self._asked.drivers and not (
            can_crash and self._chance.random() < 0.5
        ):
            self._kill_driver()
        elif can_crash:
            self._crash()
        return True

    def _share(self) -> float:
        """Return which part of the kills may have been by now."""
        return 1.0

    def _can_crash(self) -> bool:
        """Return whether connector and database may crash now."""
        return True

    def _killed(self, one: LoadedPipeline, group: int) -> None:
        """Do what follows a kill of the driver of a pipeline, whose process group is given."""

    def _kill_driver(self) -> None:
        one = self._chance.choice(self._loaded)
        generation = one.open_generation(create=False)
        group = group_of(one)
        if generation is None or group is None or not is_held(generation):
            return
        self.done.drivers += 1
        kill_group(group)
        self._killed(one, group)

    def _crash(self) -> None:
        crash = (self._database.crash_connector, self._database.crash_server)
        crash[self.done.crashes % 2]()
        self.done.crashes += 1
