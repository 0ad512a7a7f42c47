"""Which `spark.master` is a cluster, YARN or Kubernetes: server, namespace, launcher, tool."""

from __future__ import annotations

from pathlib import Path

from hybrid_extensions.clusters import kubernetes, yarn
from hybrid_extensions.clusters.tools import require_tool
from sources.config.spark_settings import SparkSettings
from spark_jobs.launch.launch_record import Place


class Yarn:
    """YARN as a place of drivers; implements what the registry asks of a kind of cluster.

    Attributes:
        kind: Name of the kind, in a :class:`Place`.
        variables: Prefixes of Spark properties that set environment variables of a driver.
        has_image: Whether a driver runs in an image that has this project's code.
    """

    kind = "yarn"
    variables = ("spark.yarn.appMasterEnv.",)
    has_image = False

    def place(self, settings: SparkSettings) -> Place | None:
        """Return the place for ``master: yarn``; None for other masters."""
        return Place(kind=self.kind) if settings.master == "yarn" else None

    def conf(self, application: str) -> dict[str, str]:
        """Return the Spark properties by which the application of a launch is found.

        Args:
            application: The launch's name on the cluster.
        """
        return yarn.conf(application)

    def require_tool(self) -> None:
        """Refuse to launch a driver if the command ``yarn`` is missing.

        Raises:
            InputError: There is none.
        """
        require_tool("yarn")

    def launcher(self, _: Place, log: Path) -> yarn.YarnLauncher:
        """Return the launcher for drivers on YARN.

        Args:
            _: The place, without effect.
            log: Output of the launch's ``spark-submit``.
        """
        return yarn.YarnLauncher(log)


class Kubernetes:
    """Kubernetes as a place of drivers; implements what the registry asks of a kind of cluster.

    Attributes:
        kind: Name of the kind, in a :class:`Place`.
        variables: Prefixes of Spark properties that set environment variables of a driver.
        has_image: Whether a driver runs in an image that has this project's code.
    """

    kind = "kubernetes"
    variables = ("spark.kubernetes.driver.secretKeyRef.", "spark.kubernetes.driverEnv.")
    has_image = True

    def place(self, settings: SparkSettings) -> Place | None:
        """Return the place for a master ``k8s://…``; None for other masters.

        The namespace is ``default`` if none is set.
        """
        if not settings.master.startswith("k8s://"):
            return None
        server = settings.master.removeprefix("k8s://")
        return Place(
            kind=self.kind,
            # As Spark reads it.
            server=server if "://" in server else f"https://{server}",
            context=settings.conf.get("spark.kubernetes.context"),
            namespace=settings.conf.get("spark.kubernetes.namespace", "default"),
        )

    def conf(self, application: str) -> dict[str, str]:
        """Return the Spark properties by which the pod of a launch is found.

        Args:
            application: The launch's name on the cluster.
        """
        return kubernetes.conf(application)

    def require_tool(self) -> None:
        """Refuse to launch a driver if the command ``kubectl`` is missing.

        Raises:
            InputError: There is none.
        """
        require_tool("kubectl")

    def launcher(self, place: Place, _: Path) -> kubernetes.KubernetesLauncher:
        """Return the launcher for drivers on Kubernetes.

        Args:
            place: The cluster and the namespace of the pods.
            _: Output of the launch's ``spark-submit``, without effect.
        """
        return kubernetes.KubernetesLauncher(place)


CLUSTERS = [Yarn(), Kubernetes()]
