"""Which launcher a pipeline uses, and which one a launch was made by."""

from __future__ import annotations

from pathlib import Path

from sources.common.state import Generation
from sources.config.spark_settings import SparkSettings
from spark_jobs.launch.base import Launcher, Place
from spark_jobs.launch.kubernetes import KubernetesLauncher
from spark_jobs.launch.local import LocalLauncher
from spark_jobs.launch.yarn import YarnLauncher


def place_of(settings: SparkSettings) -> Place:
    """Where a pipeline's drivers run."""
    if settings.deploy_mode == "client":
        return Place()
    if settings.master == "yarn":
        return Place(kind="yarn")
    server = settings.master.removeprefix("k8s://")
    return Place(
        kind="kubernetes",
        # As Spark reads it: https, unless it says otherwise.
        server=server if "://" in server else f"https://{server}",
        context=settings.conf.get("spark.kubernetes.context"),
        namespace=settings.conf.get("spark.kubernetes.namespace", "default"),
    )


def launcher_at(place: Place, generation: Generation, log: Path) -> Launcher:
    """Who launches there.

    Args:
        place: Where.
        generation: Whose runs they are.
        log: What ``spark-submit`` prints.
    """
    if place.kind == "yarn":
        return YarnLauncher(log)
    if place.kind == "kubernetes":
        return KubernetesLauncher(place)
    return LocalLauncher(generation, log)
