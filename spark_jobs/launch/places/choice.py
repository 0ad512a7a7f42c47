"""The launcher that a pipeline uses, and the one that made a launch."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sources.config.spark_settings import SparkSettings
from sources.state.generation import Generation
from spark_jobs.launch.places.base import Launcher
from spark_jobs.launch.places.kubernetes import KubernetesLauncher
from spark_jobs.launch.places.local import LocalLauncher
from spark_jobs.launch.places.managed import drivers_at
from spark_jobs.launch.places.shared import SharedLauncher
from spark_jobs.launch.places.yarn import YarnLauncher
from spark_jobs.launch.record import Place
from spark_jobs.launch.shared_socket import folder_of


def place_of(settings: SparkSettings) -> Place:
    """Return where a pipeline's drivers run, by ``driver``, ``master`` and ``deploy_mode``.

    With ``deploy_mode: client`` that is the launching machine, whatever the master is.
    """
    if settings.driver == "shared":
        return Place(kind="shared", folder=str(folder_of(settings.group)))
    if settings.deploy_mode == "client":
        return Place()
    if settings.master == "yarn":
        return Place(kind="yarn")
    if (service := settings.managed_by) is not None:
        return Place(kind=service.scheme, **service.place(settings))
    server = settings.master.removeprefix("k8s://")
    return Place(
        kind="kubernetes",
        # As Spark reads it.
        server=server if "://" in server else f"https://{server}",
        context=settings.conf.get("spark.kubernetes.context"),
        namespace=settings.conf.get("spark.kubernetes.namespace", "default"),
    )


def launcher_at(
    place: Place,
    generation: Generation,
    log: Path,
    process: subprocess.Popen[bytes] | None = None,
) -> Launcher:
    """Return the launcher that asks about and ends drivers at a place.

    Args:
        place: Local, shared, YARN, Kubernetes or a managed service.
        generation: State folder of the generation (one computation of the whole table) whose
            drivers they are.
        log: File that ``spark-submit`` prints to; the id of YARN's application, or of a service's
            run, is found in it.
        process: ``spark-submit``, if this process started it.
    """
    if place.kind == "yarn":
        return YarnLauncher(log)
    if place.kind == "kubernetes":
        return KubernetesLauncher(place)
    if place.is_managed:
        return drivers_at(place).launcher(place, log)
    if place.folder is not None:
        return SharedLauncher(generation, log, Path(place.folder))
    return LocalLauncher(generation, log, process)
