"""Databricks and EMR Serverless as masters: which fields they need, and which the launch sets."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sources.config.managed_service import ManagedService
from sources.config.spark_settings import SparkSettings

_EMR = re.compile(r"emr-serverless://[a-z0-9-]+/[0-9a-z]+")


class _Declared(ManagedService):
    """A service with fields of its own in ``spark.service``.

    Attributes:
        needed: The field that has to be declared.
        of_the_launch: Fields that the launch itself says to the service.
    """

    needed: ClassVar[str]
    of_the_launch: ClassVar[tuple[str, ...]]

    def check(self, settings: SparkSettings) -> None:
        if self.needed not in settings.service:
            message = (
                f"`master: {settings.master}` needs `{self.needed}` in `service`. Set it there."
            )
            raise ValueError(message)
        for field in self.of_the_launch:
            if field in settings.service:
                message = (
                    f"`service` can't set `{field}`: runs are started and found by it, or ended "
                    f"and repeated by the supervision alone. Remove `{field}`."
                )
                raise ValueError(message)


class EmrServerlessService(_Declared):
    """Amazon EMR Serverless as a master, ``emr-serverless://region/application``."""

    scheme = "emr-serverless"
    form = "emr-serverless://region/application"
    environment = "spark.emr-serverless.driverEnv."
    drivers = "hybrid_extensions.managed.submission:DRIVERS"
    needed = "executionRoleArn"
    of_the_launch = ("applicationId", "name", "clientToken", "mode", "retryPolicy", "jobDriver")

    def check(self, settings: SparkSettings) -> None:
        """Refuse a master without region and application, or with a wrong ``spark.service``.

        That needs what the service can't do without, and may have no field that the launch sets.

        Raises:
            ValueError: Says which field, why, and the way out.
        """
        if not _EMR.fullmatch(settings.master):
            message = (
                f"`master: {settings.master}` names no application of EMR Serverless. Write "
                "`emr-serverless://<region>/<application id>`."
            )
            raise ValueError(message)
        super().check(settings)

    def place(self, settings: SparkSettings) -> dict[str, Any]:
        """Return region (``server``) and application, the fields of a :class:`Place`."""
        region, _, application = settings.master.partition("://")[2].partition("/")
        return {"server": region, "application": application}


class DatabricksService(_Declared):
    """Databricks as a master, ``databricks://host``."""

    scheme = "databricks"
    form = "databricks://host"
    environment = "spark.databricks.driverEnv."
    extra = "databricks"
    drivers = "hybrid_extensions.managed.submission:DRIVERS"
    needed = "new_cluster"
    of_the_launch = ("task_key", "max_retries", "spark_python_task")

    def check(self, settings: SparkSettings) -> None:
        """Refuse settings without the job's file, or with a wrong ``spark.service``.

        That needs ``new_cluster``, and may have no field that the launch sets itself.

        Raises:
            ValueError: Says which field, why, and the way out.
        """
        super().check(settings)
        if settings.job_file is None:
            message = (
                f"`master: {settings.master}` needs `job_file`: where the workspace has this "
                "project's `spark_jobs/job.py`, such as `/Workspace/Shared/job.py`."
            )
            raise ValueError(message)

    def place(self, settings: SparkSettings) -> dict[str, Any]:
        """Return the address of the workspace (``server``), a field of a :class:`Place`."""
        address = settings.master.partition("://")[2]
        return {"server": address if "://" in address else f"https://{address}"}


SERVICES = [EmrServerlessService(), DatabricksService()]
