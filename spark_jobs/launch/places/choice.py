"""Choice of the place where drivers run, by `spark` settings, and of the launcher for a place."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sources.config.spark_settings import SparkSettings
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.places.base import Launcher
from spark_jobs.launch.places.cluster import cluster_at, place_on_cluster
from spark_jobs.launch.places.local import LocalLauncher
from spark_jobs.launch.places.managed import drivers_at
from spark_jobs.launch.places.shared import shared_drivers


def driver_place(settings: SparkSettings) -> Place:
    """Choose where a pipeline's drivers run, by its declared Spark settings.

    With ``deploy_mode: client`` that is the launching machine, whatever the master is.

    Raises:
        InputError: No installed extension knows the master.
    """
    if settings.driver == "shared":
        return Place(kind="shared", folder=str(shared_drivers().folder_of(settings.group)))
    if settings.deploy_mode == "client":
        return Place()
    if (service := settings.managed_by) is not None:
        return Place(kind=service.scheme, **service.place(settings))
    return place_on_cluster(settings)


def launcher_at(
    place: Place,
    generation: Generation,
    log: Path,
    process: subprocess.Popen[bytes] | None = None,
) -> Launcher:
    """Choose the launcher for drivers at a place: it asks about them and ends them.

    Args:
        place: Where they run, by the settings or by the record of a launch.
        generation: State folder of the generation (one computation of the whole table) that they
            compute.
        log: Output of ``spark-submit``, in which the id of the driver's application or run may be
            found.
        process: ``spark-submit``, if this process started it; else None.

    Raises:
        InputError: No installed extension knows the place.
    """
    if place.is_managed:
        return drivers_at(place).launcher(place, log)
    if place.is_cluster:
        return cluster_at(place).launcher(place, log)
    if place.folder is not None:
        return shared_drivers().launcher(generation, log, Path(place.folder))
    return LocalLauncher(generation, log, process)
