"""Interface of drivers that pipelines share; an extension implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sources.config.loader import LoadedPipeline
from sources.extensions import contributions, none_adds
from sources.state.generation import Generation
from spark_jobs.launch.places.base import Launcher


class EndedRuns(Launcher, Protocol):
    """Launcher of runs in a shared driver, which also ends one whose launch record is gone."""

    def end_run(self, launch_id: str, source: str) -> None:
        """End the run of a launch on this machine, leaving the driver's other runs alone.

        Args:
            launch_id: Id of the launch.
            source: Name of the source that it reads, for the message.

        Raises:
            RunError: The run does not end.
        """


class StartedRuns(Protocol):
    """Interface of one shared driver for launches: start it if needed, and submit runs to it."""

    def require(self) -> None:
        """Start the driver unless it runs; refuse a pipeline whose settings don't fit it.

        Raises:
            InputError: It runs other pipelines with other settings; or Java, Spark or a jar is
                missing.
            RunError: It ended while it started.
            UnavailableError: It does not come up, or does not answer.
        """

    def run(
        self,
        sources: Sequence[str],
        launch_id: str,
        generation: str,
        log: Path,
        environment: dict[str, str],
        descriptors: Sequence[int],
    ) -> int:
        """Submit a run, and return the driver's process id; raises as :meth:`require`.

        Args:
            sources: Names of the sources to be read one after the other.
            launch_id: Id of the launch.
            generation: Name of the generation that it is for.
            log: The run's log file; emptied first.
            environment: More environment variables of the launch.
            descriptors: File descriptors of the launch lock, which the driver then holds.
        """


class SharedDrivers(ABC):
    """Interface of drivers on this machine that several pipelines share."""

    @abstractmethod
    def folder_of(self, group: str) -> Path:
        """Return the folder of the driver of a group (``spark.group``); it need not exist."""

    @abstractmethod
    def folder_of_process(self, pid: int) -> Path | None:
        """Return the folder of the shared driver with a process id; None if that is no such one.

        Called to end a run without a launch record, by the process id in its heartbeat.
        """

    @abstractmethod
    def launcher(self, generation: Generation, log: Path, folder: Path) -> EndedRuns:
        """Return the launcher of a generation's runs in the driver of a folder."""

    @abstractmethod
    def driver(self, loaded: LoadedPipeline, folder: Path) -> StartedRuns:
        """Return the driver of a folder, for a launch; nothing is started yet."""


def installed_drivers() -> SharedDrivers | None:
    """Return what the first installed extension that shares drivers adds; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("shared_drivers"), None)


def shared_drivers() -> SharedDrivers:
    """Return what the first installed extension that shares drivers adds.

    Raises:
        InputError: No installed extension shares drivers.
    """
    if (found := installed_drivers()) is None:
        does = "runs drivers that pipelines share"
        raise none_adds(does, "declare `driver: own`", field="spark.driver", value="shared")
    return found
