"""Declaration of how Spark is started."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sources.common.fields import Declared

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


class SparkSettings(Declared):
    """How Spark is started.

    Attributes:
        master: Spark's master URL: ``local[*]``, ``spark://host:port``, ``yarn`` or
            ``k8s://https://host:port``.
        deploy_mode: Where the driver runs: ``client`` on the machine that launches it,
            ``cluster`` inside the cluster. By default ``cluster`` for YARN and Kubernetes, else
            ``client``.
        job_file: Kubernetes: path of this project's ``spark_jobs/job.py`` inside the image. By
            default the path that it has on the machine that launches.
        driver_memory: Heap of the driver, in Spark's notation, such as ``4g``.
        driver: ``own``: a driver for this pipeline alone; ``shared``: one driver on the launching
            machine runs it next to the other pipelines of its ``group``, with the same ``master``,
            ``driver_memory`` and ``conf``.
        group: Name of the shared driver: letters, digits, ``-`` and ``_``.
        conf: Further Spark properties, by name.

    """

    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    job_file: str | None = None
    driver_memory: str = "2g"
    driver: Literal["own", "shared"] = "own"
    group: str = Field(default=_GROUP, pattern=r"^[\w-]{1,64}$")
    conf: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _where_the_driver_runs(cls, given: object) -> object:
        if not isinstance(given, dict) or "deploy_mode" in given:
            return given
        has_cluster_mode = str(given.get("master", "")).startswith(_CLUSTER_MODE)
        return {**given, "deploy_mode": "cluster" if has_cluster_mode else "client"}

    @model_validator(mode="after")
    def _can_be_launched(self) -> SparkSettings:
        if not self.master.startswith(_MASTERS):
            message = (
                f"`master: {self.master}` is not a master that is supported. Write `local[*]`, "
                "`spark://host:port`, `yarn` or `k8s://https://host:port`."
            )
            raise ValueError(message)
        if self.deploy_mode == "cluster" and not self.master.startswith(_CLUSTER_MODE):
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
        is_on_kubernetes = self.deploy_mode == "cluster" and self.master.startswith("k8s://")
        if self.job_file is not None and not is_on_kubernetes:
            message = (
                "`job_file` has a meaning on Kubernetes with `deploy_mode: cluster` only; here it "
                f"is `master: {self.master}`, `deploy_mode: {self.deploy_mode}`. Remove "
                "`job_file`, or set these two."
            )
            raise ValueError(message)
        if is_on_kubernetes and not any(name in self.conf for name in _IMAGES):
            message = (
                f"`master: {self.master}` with `deploy_mode: cluster` needs a container image, and "
                f"none is named. Set `{_IMAGES[0]}` in `conf`, or declare `deploy_mode: client`."
            )
            raise ValueError(message)
        return self
