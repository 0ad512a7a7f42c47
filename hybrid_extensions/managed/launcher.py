"""Launcher on managed Spark: one run for each launch; a cancelled one is waited for up to 90 s.

A launch is one run of the service. The launch's id is its idempotency token, so that a request that
is sent twice starts one run, and its name, so that it is found whatever became of the launcher.
"""

from __future__ import annotations

import re
import time
from functools import cached_property
from pathlib import Path

from hybrid_extensions.managed.client import Service
from sources.errors import HybridError, RunError
from spark_jobs.launch.launch_record import Launch, Place
from spark_jobs.launch.places.base import DriverStatus

SUBMITTED = "Submitted run {} to {}"
"""What the process that hands a driver over prints, with the run's id and the service's name."""
_SUBMITTED = re.compile(r"^Submitted run (\S+) to ", re.MULTILINE)
GONE_WITHIN_S = 90.0
"""Seconds within which a run that was cancelled has ended."""
POLL_S = 1.0
"""Seconds between two questions whether it has."""


class ManagedLauncher:
    """Launcher of drivers on managed Spark, for launches that were handed over.

    Args:
        place: The service, and where in it the launch's run is.
        submit_log: Output of the process that handed the driver over; it has the run's id.
    """

    def __init__(self, place: Place, submit_log: Path) -> None:
        self._place = place
        self._submit_log = submit_log

    @cached_property
    def _service(self) -> Service:
        return service_at(self._place)

    def status(self, launch: Launch) -> DriverStatus:
        """Return the state of the launch's run, as the service reports it. Raises nothing.

        Returns:
            ``unknown`` if the service does not answer; ``ended`` if it knows no such run.
        """
        try:
            if (run := self._find(launch)) is None:
                return DriverStatus("ended", reason=f"and {self._service.name} knows no run of it")
            return self._service.status(run)
        except HybridError as error:
            return DriverStatus("unknown", reason=str(error).rstrip("."))

    def stop(self, launch: Launch) -> None:
        """Cancel the run and wait until the service reports its end; no error if there is none.

        Raises:
            RunError: The run has not ended within 90 s.
            UnavailableError: The service does not answer.
            InputError: The service's Python package is not installed.
        """
        if (run := self._find(launch)) is None or self._service.status(run).state == "ended":
            return
        self._service.cancel(run)
        deadline = time.monotonic() + GONE_WITHIN_S
        while self._service.status(run).state != "ended":
            if time.monotonic() > deadline:
                message = (
                    f"{self._service.name} did not end run {run}, the driver of "
                    f"`{launch.source}`, within {GONE_WITHIN_S:.0f} s. It may still be running "
                    "and writing to the table."
                )
                hint = (
                    "Run `hybrid stop P` again, or cancel the run in the service's console. Don't "
                    "start another run before it has ended."
                )
                raise RunError(message, hint, source=launch.source, value=run)
            time.sleep(POLL_S)

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver printed, as far as the service provides them.

        Returns:
            At most so many lines; empty if the service does not answer or has none (yet).
        """
        try:
            run = self._find(launch)
            return "" if run is None else self._service.logs(run, lines)
        except HybridError:
            return ""

    def _find(self, launch: Launch) -> str | None:
        """Return the id of the launch's run: it was printed at the launch, or by its name."""
        if self._submit_log.exists():
            printed = _SUBMITTED.search(self._submit_log.read_text(errors="replace"))
            if printed is not None:
                return printed[1]
        return self._service.find(launch.application)


def service_at(place: Place) -> Service:
    """Return the client of the managed service at a place.

    Raises:
        InputError: The service's Python package is not installed.
        UnavailableError: Its client finds no login.
    """
    if place.kind == "databricks":
        from hybrid_extensions.managed.databricks import Databricks

        return Databricks(str(place.server))
    from hybrid_extensions.managed.emr_serverless import EmrServerless

    return EmrServerless(str(place.server), str(place.application))
