"""Interface of clusters that ``spark-submit`` submits drivers to; extensions implement it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Protocol

from sources.config.spark_settings import SparkSettings
from sources.errors import InputError
from sources.extensions import items_added, none_adds
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.places.base import Launcher


class Cluster(Protocol):
    """Interface of a kind of clusters to which ``spark-submit`` hands drivers over.

    Extensions implement it.

    Attributes:
        kind: Its name in the record of a launch.
        variables: Prefixes of the Spark properties that give a driver an environment variable;
            hints name the first.
        has_image: Whether drivers find the project in a container image, and get no files from the
            machine that launches them.
    """

    kind: str
    variables: tuple[str, ...]
    has_image: bool

    def place(self, settings: SparkSettings) -> Place | None:
        """Return the place of drivers on the cluster; None if ``master`` is of another kind."""

    def conf(self, application: str) -> dict[str, str]:
        """Return the Spark properties that mark a driver, so that it is found on the cluster later.

        Args:
            application: Name of the launch on the cluster.
        """

    def require_tool(self) -> None:
        """Refuse to launch a driver if the cluster's command line tool is missing.

        Raises:
            InputError: The cluster's command line tool is not installed.
        """

    def launcher(self, place: Place, log: Path) -> Launcher:
        """Return the launcher for drivers on the cluster.

        Args:
            place: Where they run.
            log: Output of the launch's ``spark-submit``.
        """


@cache
def clusters() -> dict[str, Cluster]:
    """Return the kinds of clusters that installed extensions add, by name; looked up once.

    Raises:
        InputError: An extension can't be loaded.
    """
    return {each.kind: each for each in items_added("clusters")}


def place_on_cluster(settings: SparkSettings) -> Place:
    """Return the place of drivers with these settings, as the first cluster that knows ``master``.

    Raises:
        InputError: No installed extension knows the master.
    """
    for cluster in clusters().values():
        if (place := cluster.place(settings)) is not None:
            return place
    raise _unknown(settings.master)


def cluster_at(place: Place) -> Cluster:
    """Return the kind of cluster on which the driver of a recorded place runs.

    Raises:
        InputError: No installed extension adds this kind.
    """
    found = clusters().get(place.kind)
    if found is None:
        raise _unknown(place.kind)
    return found


def _unknown(what: str) -> InputError:
    does = f"launches drivers on `{what}`, or asks about them there"
    return none_adds(does, "declare another `spark.master`", field="spark.master", value=what)
