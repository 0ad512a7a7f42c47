"""Settings and storage of a Kafka broker that is its own controller (KRaft)."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from services.process import HOST, last_lines
from sources.errors import RunError


def settings(
    port: int, controller_port: int, data: Path, more: Mapping[str, str]
) -> dict[str, str]:
    """Kafka's broker settings for one node; those in ``more`` win."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # Of the two ways to name the quorum, the one that leaves no port in the storage: the next
        # start has other ports.
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        # One node can't hold the replicas that the defaults ask for.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 each by default: made, opened and closed for a handful of groups.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        **more,
    }


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Write settings in Java's format, where a backslash starts an escape."""
    escaped = ((key, value.replace("\\", "\\\\")) for key, value in values.items())
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped), encoding="utf-8")


def format_storage(launcher: list[str], properties: Path, data: Path, log: Path) -> None:
    """Prepare a data folder for its first start; nothing if it was prepared before.

    Args:
        launcher: Java with Kafka on its class path.
        properties: The broker's settings.
        data: The folder.
        log: Gets what Kafka prints, appended.

    Raises:
        RunError: Kafka refused; carries what it printed.
    """
    # Kafka writes this file as the last step.
    if (data / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
    run = subprocess.run(
        [*launcher, *command, "--config", str(properties)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    with log.open("ab") as file:
        file.write(run.stdout)
    if run.returncode != 0:
        message = f"The Kafka broker can't prepare its storage:\n{last_lines(run.stdout)}"
        raise RunError(message)
