"""Drivers on Kubernetes by `kubectl`: what a pod's phase means, deletion within 90 s, logs.

A launch is one pod. Its name is fixed before the launch, so it is found whatever became of the
process that launched it.
https://spark.apache.org/docs/latest/running-on-kubernetes.html
"""

from __future__ import annotations

import json
from typing import Any

from hybrid_extensions.clusters.tools import Answer, ask
from sources.errors import HybridError, RunError
from spark_jobs.launch.launch_record import Launch, Place
from spark_jobs.launch.places.base import DriverStatus

_CONTAINER = "spark-kubernetes-driver"
_GRACE_S = 20
_GONE_WITHIN_S = 90


class KubernetesLauncher:
    """Launcher of drivers in pods on Kubernetes, by ``kubectl``.

    Args:
        place: The cluster's address, the client's context, and the namespace of the pods.
    """

    def __init__(self, place: Place) -> None:
        where = {"context": place.context, "server": place.server, "namespace": place.namespace}
        given = [(name, value) for name, value in where.items() if value is not None]
        self._kubectl = [
            "kubectl",
            *(part for name, value in given for part in (f"--{name}", value)),
        ]

    def status(self, launch: Launch) -> DriverStatus:
        """Return the state of the driver's pod, as the API server reports it. Raises nothing.

        Returns:
            ``unknown`` if the server does not answer or ``kubectl`` is not installed; ``ended`` if
            there is no such pod.
        """
        command = [*self._kubectl, "--request-timeout", "10s", "get", "pod", launch.application]
        try:
            answer = ask([*command, "--ignore-not-found", "--output", "json"])
        except HybridError as error:
            return DriverStatus("unknown", reason=str(error).rstrip("."))
        return read_status(launch.application, answer)

    def stop(self, launch: Launch) -> None:
        """Delete the driver's pod, and with it its executors; no error if there is none.

        The driver gets 20 s to end its query. Returns when the pod is gone.

        Raises:
            RunError: ``kubectl`` reports that the pod was not deleted within 90 s, or a failure.
            UnavailableError: ``kubectl`` did not end within 120 s.
            InputError: ``kubectl`` is not installed.
        """
        times = ["--grace-period", str(_GRACE_S), "--timeout", f"{_GONE_WITHIN_S}s"]
        command = [*self._kubectl, "delete", "pod", launch.application]
        answer = ask([*command, "--ignore-not-found", "--wait", *times], _GONE_WITHIN_S + 30)
        if answer.status != 0:
            message = (
                f"Kubernetes did not delete pod {launch.application}, the driver of "
                f"`{launch.source}`; `kubectl delete` reports: {answer.last_words.rstrip('.')}. "
                "The driver may still be running and writing to the table."
            )
            hint = (
                "Run `hybrid stop P` again once the cluster answers, or delete the pod with "
                "kubectl. Don't start another run before the pod is gone."
            )
            raise RunError(message, hint, source=launch.source, value=launch.application)

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver printed.

        Returns:
            At most so many lines; empty once its pod is gone, or if the cluster does not answer.
        """
        command = [*self._kubectl, "--request-timeout", "10s", "logs", launch.application]
        try:
            answer = ask([*command, "--container", _CONTAINER, "--tail", str(lines)])
        except HybridError:
            return ""
        return answer.output.rstrip("\n") if answer.status == 0 else ""


def read_status(pod: str, answer: Answer) -> DriverStatus:
    """Return the state of a driver from the answer of ``kubectl get pod``.

    Args:
        pod: Name of the driver's pod.
        answer: Answer to ``kubectl get pod --ignore-not-found --output json``.

    Returns:
        The state; ``unknown`` if the command failed, its output has no status, or the node of the
        pod does not answer; ``ended`` if there is no such pod, or its driver has ended and others
        of its containers still run.
    """
    if answer.status != 0:
        return DriverStatus("unknown", reason=f"Kubernetes does not answer: {answer.last_words}")
    if not answer.output.strip():
        return DriverStatus("ended", reason=f"and Kubernetes has no pod {pod}")
    try:
        status: dict[str, Any] = json.loads(answer.output)["status"]
        phase = status["phase"]
    except (ValueError, KeyError, TypeError):
        return DriverStatus("unknown", reason=f"Kubernetes reports no status of pod {pod}")
    if phase == "Pending":
        return DriverStatus("waiting", reason=_why(status, "waiting"))
    if phase == "Running":
        return _of_container(pod, status) or DriverStatus("running")
    if phase == "Succeeded":
        return DriverStatus("ended", is_good=True, reason=f"as {phase} on Kubernetes (pod {pod})")
    if phase == "Failed":
        why = _why(status, "terminated")
        text = f"as {phase} on Kubernetes (pod {pod}){why and f': {why}'}"
        return DriverStatus("ended", is_good=False, reason=text)
    # `Unknown`: its node does not answer.
    return DriverStatus(
        "unknown", reason=f"pod {pod} is in phase {phase}: its node does not answer"
    )


def _of_container(pod: str, status: dict[str, Any]) -> DriverStatus | None:
    """Return the end of the driver's container in a pod that runs on; None if it has not ended.

    A pod has its phase by all of its containers, such as that of a proxy of a service mesh.
    """
    for container in status.get("containerStatuses", []):
        found = container.get("state", {}).get("terminated")
        if container.get("name") == _CONTAINER and found is not None:
            of_driver = {"containerStatuses": [container]}
            why = _why(of_driver, "terminated")
            text = f"in its container on Kubernetes (pod {pod}){why and f': {why}'}"
            return DriverStatus("ended", is_good=found.get("exitCode") == 0, reason=text)
    return None


def _why(status: dict[str, Any], state: str) -> str:
    """Return why a pod is in its phase: its own reasons, and those of its containers."""
    parts = [status.get("reason"), status.get("message")]
    for container in status.get("containerStatuses", []):
        found = container.get("state", {}).get(state)
        if found is None:
            continue
        parts += [found.get("reason"), found.get("message")]
        if found.get("reason") == "OOMKilled":
            parts.append("out of memory; raise `spark.driver.memoryOverhead`")
        elif found.get("exitCode"):
            parts.append(f"exit status {found['exitCode']}")
    for condition in status.get("conditions", []) if state == "waiting" else []:
        if condition.get("status") == "False" and condition.get("type") == "PodScheduled":
            parts += [condition.get("reason"), condition.get("message")]
    return ": ".join(part for part in parts if part)[:1000]


def conf(pod: str) -> dict[str, str]:
    """Return the Spark properties that name the driver's pod, so that it is found again.

    With them ``spark-submit`` does not wait for the driver's end: the launcher asks the cluster.

    Args:
        pod: Name of the pod.
    """
    return {
        "spark.kubernetes.driver.pod.name": pod,
        "spark.kubernetes.submission.waitAppCompletion": "false",
    }
