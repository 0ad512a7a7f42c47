"""KRaft: settings and storage of a Kafka broker that is also its own controller."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from hybrid_extensions.servers.process import HOST, last_lines
from sources.errors import RunError


def settings(
    ports: Mapping[str, int], controller_port: int, data: Path, more: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings, by name, of a single Kafka node that is broker and controller at once.

    Args:
        ports: Port of each listener, by its security protocol; ``PLAINTEXT`` is among them.
        controller_port: Port of the controller.
        data: Folder of the topics' data (``log.dirs``).
        more: Other broker settings; they take precedence.
    """
    listeners = [f"{protocol}://{HOST}:{port}" for protocol, port in ports.items()]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{controller_port}"]),
        "advertised.listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in ports)]
        ),
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
        # 50 each by default: created, opened and closed for a handful of groups.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        **more,
    }


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Write a file of settings in Java's properties format, for Kafka's programs to read.

    Only the owner can read it, since passwords may be among the settings.
    """
    path.touch(mode=0o600)
    path.chmod(0o600)
    lines = (f"{key}={_escaped(value)}\n" for key, value in values.items())
    path.write_text("".join(lines), encoding="ascii")


def _escaped(value: str) -> str:
    """Escape a value for ``java.util.Properties``: ASCII, with escapes for all the rest."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 0x80 else f"\\u{code:04x}" for code in codes)


def format_storage(launcher: list[str], properties: Path, data: Path, log: Path) -> None:
    """Prepare a Kafka data folder for its first start; do nothing if it was prepared before.

    Kafka writes a new cluster id into it (``kafka-storage format``).

    Args:
        launcher: Command that starts Java with Kafka on its class path.
        properties: File of the broker's settings.
        data: The data folder.
        log: File that Kafka's output is appended to.

    Raises:
        RunError: Kafka can't prepare it; carries the end of its output.
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
        message = (
            f"The Kafka broker can't prepare its data folder {data}. The end of what Kafka "
            f"printed:\n{last_lines(run.stdout)}"
        )
        hint = (
            "Correct the settings that the output names, make the folder writable, or name another "
            "folder; then start the broker again."
        )
        raise RunError(message, hint, transient=False, file=str(data))
