"""Interface of managed Spark services for drivers; extensions implement it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple, Protocol

from sources.config.loader import LoadedPipeline
from sources.config.managed_service import managed_services
from sources.extensions import none_adds
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.places.base import Launcher


class HandOver(NamedTuple):
    """Command that submits a driver to a managed service, in place of ``spark-submit``.

    Attributes:
        prepare: Creates the folder of the launch, with what the command needs; called first.
        command: The program and its arguments.
    """

    prepare: Callable[[], None]
    command: list[str]


class ManagedDrivers(Protocol):
    """Interface of a managed service for its drivers: starts, finds and ends them.

    Extensions implement it.
    """

    def launcher(self, place: Place, log: Path) -> Launcher:
        """Return the launcher for a driver on the service, which asks about it and ends it.

        Args:
            place: Where it runs, by the record of its launch.
            log: Output of the command that submitted it, which has the driver's id.
        """

    def hand_over(
        self,
        loaded: LoadedPipeline,
        place: Place,
        scratch: Path,
        sources: Sequence[str],
        launch_id: str,
        generation: str,
    ) -> HandOver:
        """Make the command that submits a driver to the service; nothing is sent or written yet.

        Args:
            loaded: The pipeline.
            place: Where the driver is to run.
            scratch: Folder for temporary files of the launch.
            sources: Names of the sources, in order.
            launch_id: Identifier of the launch.
            generation: Name of the generation that it is for.

        Raises:
            InputError: The service could not run this pipeline's driver.
        """


def drivers_at(place: Place) -> ManagedDrivers:
    """Return the implementation for the managed service that a launch's place names.

    Raises:
        InputError: No installed extension adds the service.
    """
    service = managed_services().get(place.kind)
    if service is None:
        does = f"asks about drivers on `{place.kind}`, where this one was launched"
        raise none_adds(does, "act on the machine that launched it", value=place.kind)
    drivers: ManagedDrivers = resolve_name(service.drivers)
    return drivers
