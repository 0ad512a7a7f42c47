"""Interface of clients for managed Spark: a run is started once, found by name, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sources.errors import UnavailableError
from spark_jobs.launch.places.base import DriverStatus

GRACE_S = 20
"""Seconds that a driver has to end its query, where the service can give it any."""


class Service(Protocol):
    """Client of a service that runs Spark drivers, such as Databricks.

    A run is one driver. Each method raises :class:`UnavailableError` if the service does not
    answer, or does not let this process in.

    Attributes:
        name: Name of the service, for messages.
    """

    name: str

    def submit(self, request: Mapping[str, Any]) -> str:
        """Start a run, unless one with the request's idempotency token exists; return its id.

        Args:
            request: The service's own arguments.

        Raises:
            RunError: The service refused the request; no run was started.
        """

    def find(self, name: str) -> str | None:
        """Return the id of the run of this name; None if the service knows no such run.

        A run's name is that of its launch
        (:func:`spark_jobs.launch.launch_record.application_name`).
        """

    def status(self, run: str) -> DriverStatus:
        """Return the state of a run; ``ended`` if the service does not know it any more."""

    def cancel(self, run: str) -> None:
        """Ask the service to end a run; no error if it has ended already."""

    def logs(self, run: str, lines: int) -> str:
        """Return the last lines that a run printed, or where they are; empty if there are none."""


def no_answer(service: str, reason: str) -> UnavailableError:
    """Return (do not raise) the error for a service that does not answer, or denies access.

    Args:
        service: Name of the service.
        reason: What its client reports.
    """
    message = (
        f"{service} can't be asked, so it is unknown whether a driver runs there; its client "
        f"reports: {reason.strip().rstrip('.')}."
    )
    hint = "Check address and login of the service on this machine, then repeat what you did."
    return UnavailableError(message, hint, server=service)
