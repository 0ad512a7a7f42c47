"""Drivers that pipelines share, behind the interface by which launches ask for them."""

from __future__ import annotations

from pathlib import Path

from hybrid_extensions.shared_drivers.launcher import SharedLauncher
from hybrid_extensions.shared_drivers.requests import folder_of, folder_of_process
from hybrid_extensions.shared_drivers.start import SharedDriver
from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from spark_jobs.launch.places.shared import SharedDrivers


class DriversOfGroups(SharedDrivers):
    """Shared drivers on this machine, one for each `spark.group`; implements the core's interface.

    Its methods start nothing.
    """

    def folder_of(self, group: str) -> Path:
        """Return the folder of a group's driver; it need not exist."""
        return folder_of(group)

    def folder_of_process(self, pid: int) -> Path | None:
        """Return the folder of the shared driver that is this process; None if it is none.

        Raises:
            InputError: The process at a driver's socket is of another user.
        """
        return folder_of_process(pid)

    def launcher(self, generation: Generation, log: Path, folder: Path) -> SharedLauncher:
        """Return the launcher of a generation's runs in a shared driver."""
        return SharedLauncher(generation, log, folder)

    def driver(self, loaded: LoadedPipeline, folder: Path) -> SharedDriver:
        """Return the shared driver of a folder, for a launch; nothing is started yet."""
        return SharedDriver(loaded, folder)


DRIVERS = DriversOfGroups()
