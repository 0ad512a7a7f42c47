"""Managed services that run Spark drivers; extensions add them, each as a scheme of ``master``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from sources.extensions import items_added

if TYPE_CHECKING:
    from sources.config.spark_settings import SparkSettings


class ManagedService(ABC):
    """A service that runs Spark drivers (``emr-serverless``, …); extensions implement it.

    Attributes:
        scheme: Scheme of the values of ``spark.master`` that stand for it, such as ``databricks``.
        form: How such a master is written, for messages.
        environment: Prefix of the Spark properties that give the driver an environment variable.
        drivers: Name ``module:object`` of the object that starts, finds and ends its drivers, a
            :class:`spark_jobs.launch.places.managed.ManagedDrivers`.
        extra: Extra of this project that its client needs; None if it needs none.
    """

    scheme: ClassVar[str]
    form: ClassVar[str]
    environment: ClassVar[str]
    drivers: ClassVar[str]
    extra: ClassVar[str | None] = None

    @abstractmethod
    def check(self, settings: SparkSettings) -> None:
        """Refuse settings with which the service can't start a driver.

        Called while the declaration is validated; nothing is asked.

        Raises:
            ValueError: Says which field, why, and the way out.
        """

    @abstractmethod
    def place(self, settings: SparkSettings) -> dict[str, Any]:
        """Return where drivers run on the service, as fields for the record of a launch.

        By these the driver is found again later; nothing is asked.
        """


@cache
def managed_services() -> dict[str, ManagedService]:
    """Return the managed services that installed extensions add, by the scheme of ``spark.master``.

    Empty without any. Looked up once per process.

    Raises:
        InputError: An extension can't be loaded.
    """
    return {each.scheme: each for each in items_added("services")}
