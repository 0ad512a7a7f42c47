"""Declaration of how Spark starts: masters, deploy modes, shared drivers, reserved properties."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from sources.common.fields import Declared
from sources.config.managed_service import ManagedService, managed_services

# https://spark.apache.org/docs/latest/submitting-applications.html
_MASTERS = ("local", "spark://", "yarn", "k8s://")
_CLUSTER_MODE = ("yarn", "k8s://")
_RESERVED = (
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.submission.waitAppCompletion",
    "spark.master",
    "spark.submit.deployMode",
    "spark.yarn.maxAppAttempts",
    "spark.yarn.submit.waitAppCompletion",
    "spark.yarn.tags",
)
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.driver.container.image")
_GROUP = "default"
# Properties by which expressions mean something else, and the values that runs have.
_OF_EXPRESSIONS = (
    "spark.sql.ansi.",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.",
    "spark.sql.icu.",
    "spark.sql.legacy.",
    "spark.sql.parser.",
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
)
_USUAL = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}


class SparkSettings(Declared):
    """How Spark is started.

    Attributes:
        master: Spark's master URL: ``local[*]``, ``spark://host:port``, ``yarn`` or
            ``k8s://https://host:port``; or a managed service:
            ``emr-serverless://region/application`` or ``databricks://host``.
        deploy_mode: Where the driver runs: ``client`` on the machine that launches it,
            ``cluster`` inside the cluster. By default ``cluster`` for YARN, Kubernetes and managed
            services, else ``client``.
        job_file: Kubernetes and EMR Serverless: path of this project's ``spark_jobs/job.py`` inside
            the image. By default the path that it has on the machine that launches. Databricks:
            where the workspace has this file.
        driver_memory: Heap of the driver, in Spark's notation, such as ``4g``.
        driver: ``own``: a driver for this pipeline alone; ``shared``: one driver on the launching
            machine runs it next to the other pipelines of its ``group``, with the same ``master``,
            ``driver_memory`` and ``conf``.
        group: Name of the shared driver: letters, digits, ``-`` and ``_``.
        conf: Further Spark properties, by name.
        service: Managed services: further fields of the request that starts a run, such as
            ``executionRoleArn`` (EMR Serverless) or ``new_cluster`` (Databricks).

    """

    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    job_file: str | None = None
    driver_memory: str = "2g"
    driver: Literal["own", "shared"] = "own"
    group: str = Field(default=_GROUP, pattern=r"^[\w-]{1,64}$")
    conf: dict[str, str] = Field(default_factory=dict)
    service: dict[str, Any] = Field(default_factory=dict)

    @property
    def managed_by(self) -> ManagedService | None:
        """The managed service that ``master`` stands for; None for Spark's own masters.

        Raises:
            InputError: An extension can't be loaded.
        """
        return managed_services().get(self.master.partition("://")[0])

    @property
    def changes_expressions(self) -> str | None:
        """First property of ``conf`` that may give expressions another meaning; None without one.

        Each one of a group that concerns expressions (``spark.sql.ansi.``, ``spark.sql.legacy.``
        and more) counts, even with Spark's default as its value, but for ANSI mode that is on and
        UTC as the time zone, as runs have them.
        """
        return next(
            (
                name
                for name, value in self.conf.items()
                if name.startswith(_OF_EXPRESSIONS) and _USUAL.get(name) != value
            ),
            None,
        )

    @model_validator(mode="before")
    @classmethod
    def _where_the_driver_runs(cls, given: object) -> object:
        if not isinstance(given, dict) or "deploy_mode" in given:
            return given
        master = str(given.get("master", ""))
        is_managed = master.partition("://")[0] in managed_services()
        has_cluster_mode = is_managed or master.startswith(_CLUSTER_MODE)
        return {**given, "deploy_mode": "cluster" if has_cluster_mode else "client"}

    @model_validator(mode="after")
    def _can_be_launched(self) -> SparkSettings:
        service = self.managed_by
        if service is None and not self.master.startswith(_MASTERS):
            forms = ", ".join(f"`{each.form}`" for each in managed_services().values())
            message = (
                f"`master: {self.master}` is not a master that is supported. Write `local[*]`, "
                "`spark://host:port`, `yarn` or `k8s://https://host:port`"
                f"{forms and f', or a managed service: {forms}'}."
            )
            raise ValueError(message)
        has_cluster_mode = service is not None or self.master.startswith(_CLUSTER_MODE)
        if self.deploy_mode == "cluster" and not has_cluster_mode:
            message = (
                f"`deploy_mode: cluster` is not supported with `master: {self.master}`: Spark runs "
                "a Python driver there only on the machine that launches it. Declare "
                "`deploy_mode: client`, or use `master: yarn` or `k8s://…`."
            )
            raise ValueError(message)
        if self.driver == "shared" and self.deploy_mode == "cluster":
            message = (
                "`driver: shared` needs `deploy_mode: client`: a shared driver is a process of the "
                f"machine that launches it. With `master: {self.master}`, declare `deploy_mode: "
                "client`, or remove `driver`."
            )
            raise ValueError(message)
        if self.driver == "own" and self.group != _GROUP:
            message = (
                f"`group: {self.group}` names a shared driver, but `driver` is `own`. Declare "
                "`driver: shared`, or remove `group`."
            )
            raise ValueError(message)
        for name in _RESERVED:
            if name in self.conf:
                message = (
                    f"`conf` can't set `{name}`: runs are started and found by it. Remove `{name}` "
                    "from `conf`; `master` and `deploy_mode` have fields of their own."
                )
                raise ValueError(message)
        self._require_service(service)
        is_on_kubernetes = self.deploy_mode == "cluster" and self.master.startswith("k8s://")
        has_image = is_on_kubernetes or service is not None
        if self.job_file is not None and not has_image:
            message = (
                "`job_file` has a meaning on Kubernetes with `deploy_mode: cluster` and on managed "
                f"services only; here it is `master: {self.master}`, `deploy_mode: "
                f"{self.deploy_mode}`. Remove `job_file`, or set these two."
            )
            raise ValueError(message)
        if is_on_kubernetes and not any(name in self.conf for name in _IMAGES):
            message = (
                f"`master: {self.master}` with `deploy_mode: cluster` needs a container image, and "
                f"none is named. Set `{_IMAGES[0]}` in `conf`, or declare `deploy_mode: client`."
            )
            raise ValueError(message)
        return self

    def _require_service(self, service: ManagedService | None) -> None:
        if service is None:
            if self.service:
                message = (
                    f"`service` is for managed services, and `master: {self.master}` is none. "
                    "Remove `service`."
                )
                raise ValueError(message)
            return
        if self.deploy_mode == "client":
            message = (
                f"`deploy_mode: client` is not supported with `master: {self.master}`: the service "
                "runs the driver. Remove `deploy_mode`."
            )
            raise ValueError(message)
        service.check(self)
