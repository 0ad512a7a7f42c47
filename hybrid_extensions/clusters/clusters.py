"""YARN and Kubernetes as places of drivers."""

from __future__ import annotations

from pathlib import Path

from hybrid_extensions.clusters import kubernetes, yarn
from hybrid_extensions.clusters.tools import require_tool
from sources.config.spark_settings import SparkSettings
from spark_jobs.launch.record import Place


class Yarn:
    """YARN."""

    kind = "yarn"
    variables = ("spark.yarn.appMasterEnv.",)
    has_image = False

    def place(self, settings: SparkSettings) -> Place | None:
        """Return the place of ``master: yarn``."""
        return Place(kind=self.kind) if settings.master == "yarn" else None

    def conf(self, application: str) -> dict[str, str]:
        """Return the properties by which the application is found."""
        return yarn.conf(application)

    def require_tool(self) -> None:
        """Refuse if there is no command ``yarn``.

        Raises:
            InputError: There is none.
        """
        require_tool("yarn")

    def launcher(self, _: Place, log: Path) -> yarn.YarnLauncher:
        """Return what asks about drivers."""
        return yarn.YarnLauncher(log)


class Kubernetes:
    """Kubernetes."""

    kind = "kubernetes"
    variables = ("spark.kubernetes.driver.secretKeyRef.", "spark.kubernetes.driverEnv.")
    has_image = True

    def place(self, settings: SparkSettings) -> Place | None:
        """Return the place of a master ``k8s://…``."""
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
        """Return the properties by which the pod is found."""
        return kubernetes.conf(application)

    def require_tool(self) -> None:
        """Refuse if there is no command ``kubectl``.

        Raises:
            InputError: There is none.
        """
        require_tool("kubectl")

    def launcher(self, place: Place, _: Path) -> kubernetes.KubernetesLauncher:
        """Return what asks about drivers."""
        return kubernetes.KubernetesLauncher(place)


CLUSTERS = [Yarn(), Kubernetes()]
