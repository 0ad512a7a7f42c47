"""Drivers on Kubernetes, in cluster mode, by ``kubectl``.

A launch is one pod. Its name is fixed before it is started, so it is found whatever became of who
started it.
https://spark.apache.org/docs/latest/running-on-kubernetes.html
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from sources.errors import RunError
from spark_jobs.launch.base import Launch, Order, Place, Status, start
from spark_jobs.launch.cluster_cli import Answer, ask

_CONTAINER = "spark-kubernetes-driver"
_GRACE_S = 20
_GONE_WITHIN_S = 90


class KubernetesLauncher:
    """Launches on Kubernetes.

    Args:
        place: Which cluster, and where in it.
    """

    def __init__(self, place: Place) -> None:
        where = {"context": place.context, "server": place.server, "namespace": place.namespace}
        given = [(name, value) for name, value in where.items() if value is not None]
        self._kubectl = [
            "kubectl",
            *(part for name, value in given for part in (f"--{name}", value)),
        ]

    def launch(self, order: Order) -> subprocess.Popen[bytes]:
        """Start ``spark-submit``, which makes the driver's pod and ends."""
        return start(order)

    def status(self, launch: Launch) -> Status:
        """What the API server says of the driver's pod."""
        command = [*self._kubectl, "--request-timeout", "10s", "get", "pod", launch.application]
        try:
            answer = ask([*command, "--ignore-not-found", "--output", "json"])
        except RunError as error:
            return Status("unknown", reason=str(error))
        return read_status(launch.application, answer)

    def stop(self, launch: Launch) -> None:
        """Delete the pod, and with it its executors; the driver gets the time to end its query."""
        times = ["--grace-period", str(_GRACE_S), "--timeout", f"{_GONE_WITHIN_S}s"]
        command = [*self._kubectl, "delete", "pod", launch.application]
        answer = ask([*command, "--ignore-not-found", "--wait", *times], _GONE_WITHIN_S + 30)
        if answer.status != 0:
            message = f"Kubernetes did not end pod {launch.application}: {answer.last_words}"
            raise RunError(message, "Try again once the cluster answers.")

    def logs(self, launch: Launch, lines: int) -> str:
        """The end of what the driver printed, as long as its pod is there."""
        command = [*self._kubectl, "--request-timeout", "10s", "logs", launch.application]
        try:
            answer = ask([*command, "--container", _CONTAINER, "--tail", str(lines)])
        except RunError:
            return ""
        return answer.output.rstrip("\n") if answer.status == 0 else ""


def read_status(pod: str, answer: Answer) -> Status:
    """What ``kubectl get pod --ignore-not-found --output json`` says."""
    if answer.status != 0:
        return Status("unknown", reason=f"Kubernetes does not answer: {answer.last_words}")
    if not answer.output.strip():
        return Status("ended", reason=f"and Kubernetes has no pod {pod}")
    try:
        status: dict[str, Any] = json.loads(answer.output)["status"]
        phase = status["phase"]
    except (ValueError, KeyError, TypeError):
        return Status("unknown", reason=f"Kubernetes does not tell how pod {pod} does")
    if phase == "Pending":
        return Status("waiting", reason=_why(status, "waiting"))
    if phase == "Running":
        return Status("running")
    if phase == "Succeeded":
        return Status("ended", is_good=True, reason=f"as {phase} on Kubernetes (pod {pod})")
    if phase == "Failed":
        why = _why(status, "terminated")
        text = f"as {phase} on Kubernetes (pod {pod}){why and f': {why}'}"
        return Status("ended", is_good=False, reason=text)
    # `Unknown`: its node does not answer.
    return Status("unknown", reason=f"pod {pod} is in phase {phase}: its node does not answer")


def _why(status: dict[str, Any], state: str) -> str:
    """Why a pod is where it is: its own reason, or its container's."""
    parts = [status.get("reason"), status.get("message")]
    for container in status.get("containerStatuses", []):
        found = container.get("state", {}).get(state)
        if found is None:
            continue
        parts += [found.get("reason"), found.get("message")]
        if found.get("reason") == "OOMKilled":
            parts.append("killed for its memory; give `spark.driver.memoryOverhead` more")
        elif found.get("exitCode"):
            parts.append(f"exit status {found['exitCode']}")
    for condition in status.get("conditions", []) if state == "waiting" else []:
        if condition.get("status") == "False" and condition.get("type") == "PodScheduled":
            parts += [condition.get("reason"), condition.get("message")]
    return ": ".join(part for part in parts if part)[:1000]


def conf(pod: str) -> dict[str, str]:
    """Spark's properties that make a pod one of ours."""
    return {
        "spark.kubernetes.driver.pod.name": pod,
        "spark.kubernetes.submission.waitAppCompletion": "false",
    }
