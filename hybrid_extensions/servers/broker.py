"""A real Kafka broker on this machine: one node, KRaft, ends with the process that started it.

It counts as started once it answers with its own cluster id.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from hybrid_extensions.servers import kraft
from hybrid_extensions.servers.process import (
    HOST,
    Service,
    end,
    free_ports,
    is_taken,
    last_lines,
    spawn,
)
from hybrid_extensions.servers.secured import SecuredListeners
from sources.common.cache import cache_folder, make_private
from sources.errors import InputError, RunError, UnavailableError
from sources.kafka.client.consumer import QUIET
from sources.kafka.client.kafka_errors import describe
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import require_java

START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_PORT_TRIES = 5
_ADMIN_TIMEOUT_S = 10.0
_MEND = "Correct the cause that the log names, such as a port in use, then start the broker again."
_KILLED = (
    "Something killed it, often for lack of memory: look at the kernel's log (`dmesg`), then start "
    "the broker again."
)
_ENDED = "Start the broker again where it is needed: its topics are kept in its folder."
# Of Java, which ends properly on SIGTERM.
_SIGTERM_STATUS = 143
# For a broker of this size, C1 and the serial collector start faster, use less of the other
# processes' cores, and cost nothing measurable when producing and consuming.
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO")


class RunningBroker(NamedTuple):
    """The broker whose address a file publishes.

    Attributes:
        servers: ``host:port`` of its plain listener.
        pid: Process that ends it on SIGTERM.
        folder: Folder where it was started.
    """

    servers: str
    pid: int
    folder: str


def running_broker(address_file: Path) -> RunningBroker | None:
    """Return the broker whose address a file publishes; None if none runs.

    None was started then, or one was killed and left its file. None, too, if it is another user's.

    Args:
        address_file: The file; it need not exist.
    """
    try:
        found = json.loads(address_file.read_text())
        servers, pid = str(found["bootstrap_servers"]), int(found["pid"])
        is_there = is_taken(int(servers.split(":")[1]))
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, IndexError):
        return None
    folder = str(found.get("folder", "an unknown folder"))
    return RunningBroker(servers, pid, folder) if is_there else None


class LocalBroker(Service):
    """One-node Kafka broker for development and tests, as a context manager.

    It listens on the loopback address only, and ends when this process ends, for whatever reason.

    Args:
        data_dir: Folder of topics, settings and the log, which the next start finds again. Without
            one a temporary folder is used, and removed at the end.
        config: More of Kafka's broker settings; they take precedence.
        address_file: File that publishes the address while the broker runs: JSON with
            ``version`` (1), ``bootstrap_servers``, the ``pid`` of a process that ends the broker on
            SIGTERM, and the ``folder`` where it was started. It is never taken from another broker.
        secured: Listeners to open next to the plain one, and their users.
        port: Port of the plain listener; if left out, that of the last start in the folder, or a
            free one.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        config: Mapping[str, str] | None = None,
        address_file: Path | None = None,
        secured: SecuredListeners | None = None,
        port: int | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._config = dict(config or {})
        self._port = port
        self._address_file = address_file
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._secured = secured or SecuredListeners(())
        self._ports: dict[str, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the plain listener, for clients on this machine; kept in memory.

        Raises:
            RunError: The broker is not running.
        """
        return self.address("PLAINTEXT")

    def address(self, protocol: str) -> str:
        """Return ``host:port`` of the listener with a security protocol.

        Args:
            protocol: Kafka's name of it, such as ``PLAINTEXT`` or ``SASL_SSL``.

        Raises:
            RunError: The broker is not running, or has no such listener.
        """
        if self._process is None:
            message = "The Kafka broker is not running, so it has no address."
            hint = "Call `start()` first, or use the broker as a context manager."
            raise RunError(message, hint, transient=False)
        if protocol not in self._ports:
            message = f"The Kafka broker has no listener for the security protocol {protocol}."
            hint = (
                f"Use one of its listeners ({', '.join(self._ports)}), or start the broker with "
                f"{protocol} among `SecuredListeners.protocols`."
            )
            raise RunError(message, hint, transient=False, value=protocol)
        return f"{HOST}:{self._ports[protocol]}"

    @property
    def log_file(self) -> Path:
        """File that Kafka's output is appended to, by all starts with the same folder.

        Raises:
            RunError: The broker is not running.
        """
        if self._folder is None:
            message = "The Kafka broker is not running, so it has no log file."
            hint = "Call `start()` first, or use the broker as a context manager."
            raise RunError(message, hint, transient=False)
        return self._folder / "broker.log"

    def start(self) -> None:
        """Start the broker and wait until it answers; do nothing if it runs.

        Its ports are free ones. That of the plain listener is the one that was given, or that of
        the last start in the same folder if it is free: streams that read from there go on.

        Raises:
            RunError: The broker ended, did not answer within 60 s, can't prepare its data folder,
                or refuses the users; carries the last lines of its log, or the broker's answer.
            InputError: Java is missing, Kafka's jars can't be downloaded, a secured listener
                lacks a file, or another broker runs whose address the file publishes.
        """
        if self._process is not None:
            return
        self._require_no_other()
        java = str(require_java())
        issuer = self._secured.issuer
        own = [] if issuer is None else [issuer.java_option]
        launcher = [java, *_JVM, *own, "-cp", str(resolve("broker")[0].parent / "*")]
        if self._data_dir is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hybrid-broker-"))
        else:
            self._folder = self._data_dir.absolute()
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start(launcher, self._folder)
            self._write_address()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the broker, with SIGTERM first, then SIGKILL; do nothing if it is not running.

        A data folder that was given is kept, with its topics; a temporary one is removed.
        """
        process, self._process = self._process, None
        if process is not None:
            self._remove_address(process.pid)
            end(process)
        if self._data_dir is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def wait(self) -> None:
        """Wait until the broker ends by itself, which it should not; return at once if not running.

        Returns, too, once :meth:`stop` was called in another thread.

        Raises:
            RunError: The broker ended by itself; carries its exit status and the last lines of its
                log.
        """
        if (process := self._process) is not None:
            status = process.wait()
            if self._process is not process:
                return
            tail = last_lines(self.log_file.read_bytes())
            what = f"ended by itself, with exit status {status}"
            if status == _SIGTERM_STATUS:
                raise RunError("The Kafka broker was ended by SIGTERM, as by `kill`.", _ENDED)
            if status < 0:
                what = f"was ended by signal {-status}"
            message = f"The Kafka broker {what}. The end of its log:\n{tail}"
            # Negative: ended by a signal, of which Kafka's log says nothing.
            raise RunError(message, _KILLED if status < 0 else _MEND)

    def _start(self, launcher: list[str], folder: Path) -> None:
        protocols = ["PLAINTEXT", *self._secured.protocols]
        config = {**self._secured.settings(), **self._config}
        last = _last_port(folder / "server.properties")
        for remaining in reversed(range(_PORT_TRIES)):
            *ports, controller_port = free_ports(len(protocols) + 1)
            if self._port is not None:
                ports[0] = self._port
            elif last is not None and not is_taken(last):
                # Once: if it is taken meanwhile, the next try has another one.
                ports[0], last = last, None
            self._ports = dict(zip(protocols, ports, strict=True))
            settings = kraft.settings(self._ports, controller_port, folder / "data", config)
            properties = folder / "server.properties"
            data = Path(settings["log.dirs"].split(",")[0])
            kraft.write_properties(properties, settings)
            kraft.format_storage(launcher, properties, data, self.log_file)
            self.log_file.touch()
            begin = self.log_file.stat().st_size
            self._process = spawn([*launcher, "kafka.Kafka", str(properties)], self.log_file)
            if _wait_until_it_answers(self._process, self.bootstrap_servers, data):
                admin = AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=QUIET)
                self._secured.create_users(admin)
                return
            printed = self.log_file.read_bytes()[begin:]
            state = self._process.poll()
            end(self._process)
            self._process = None
            if remaining and any(is_taken(port) for port in (*ports, controller_port)):
                # Another process took the port before the broker did.
                continue
            what = f"did not answer within {START_TIMEOUT_S:.0f} s"
            if state is not None:
                what = f"ended at start with exit status {state}"
                if state < 0:
                    what = f"was ended at start by signal {-state}"
            message = f"The Kafka broker {what}. The end of its log:\n{last_lines(printed)}"
            raise RunError(message, _KILLED if (state or 0) < 0 else _MEND)

    def _require_no_other(self) -> None:
        """Refuse to take the name `local` away from pipelines that use another broker by it."""
        file = self._address_file
        other = None if file is None else running_broker(file)
        if other is None:
            return
        servers, pid = other.servers, other.pid
        message = (
            f"A local Kafka broker runs already at {servers}: process {pid}, started in "
            f"{other.folder}. `local` means that one in all pipelines. Nothing was started."
        )
        # Not the folder of all brokers without one, which the other may have.
        is_asked = self._data_dir not in (None, cache_folder() / "broker")
        data = shlex.quote(str(self._data_dir)) if is_asked else "broker"
        own = f"HYBRID_BROKER_FILE={shlex.quote(str(Path.cwd() / 'broker.json'))}"
        hint = (
            "To share it and its topics, use it as it is; `hybrid broker --topic NAME` creates a "
            f"topic there. To end it: `kill {pid}`; its topics stay in its folder. For one of this "
            f"folder's own, set `export {own}` in the shells of the broker, of the pipelines and "
            f"of Dagster, then start it with `hybrid broker --data {data}`."
        )
        raise InputError(message, hint, server=servers, file=str(file))

    def _write_address(self) -> None:
        if self._address_file is None or self._process is None:
            return
        address = {
            "version": 1,
            "bootstrap_servers": self.bootstrap_servers,
            "pid": self._process.pid,
            "folder": os.getcwd(),
        }
        make_private(self._address_file.parent)
        draft = self._address_file.with_name(f"{self._address_file.name}.{os.getpid()}")
        draft.write_text(json.dumps(address))
        draft.replace(self._address_file)

    def _remove_address(self, pid: int) -> None:
        # Another broker may have written its own in the meantime.
        with contextlib.suppress(OSError, ValueError):
            if self._address_file and json.loads(self._address_file.read_text())["pid"] == pid:
                self._address_file.unlink()


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with one replica; return once its partitions have leaders, or after 10 s.

    Args:
        bootstrap_servers: Address of the broker.
        name: Name of the topic.
        partitions: Number of partitions.
        config: Topic settings, such as ``retention.ms``.

    Raises:
        RunError: The broker refuses, as for a topic that exists, or can't be reached.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers}, logger=QUIET)
    deadline = time.monotonic() + _ADMIN_TIMEOUT_S
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    try:
        admin.create_topics([topic], operation_timeout=_ADMIN_TIMEOUT_S)[name].result()
        # A topic that was created is not known to all brokers at once.
        while len(_partitions(admin, name)) < partitions and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    except KafkaException as error:
        reason = describe(error)
        message = f"The topic `{name}` can't be created on {bootstrap_servers}: {reason}."
        hint = (
            "If the topic exists already, choose another name; if the broker can't be reached, "
            "start it or correct its address; otherwise correct the topic's name or settings."
        )
        raise RunError(message, hint, topic=name, server=bootstrap_servers) from None


def topics_of(bootstrap_servers: str) -> set[str]:
    """Return the names of a broker's topics, Kafka's own among them.

    Args:
        bootstrap_servers: Address of a broker that answers.

    Raises:
        UnavailableError: The broker does not answer within 10 s.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers}, logger=QUIET)
    try:
        return set(admin.list_topics(timeout=_ADMIN_TIMEOUT_S).topics)
    except KafkaException as error:
        message = (
            f"The broker {bootstrap_servers} does not say which topics it has: {describe(error)}."
        )
        hint = (
            "A broker that has just started needs a moment: try again. One that hangs has to be "
            "ended, and started by `hybrid broker`."
        )
        raise UnavailableError(message, hint, server=bootstrap_servers) from None


def _partitions(admin: AdminClient, topic: str) -> list[int]:
    found = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic]
    return [number for number, partition in found.partitions.items() if partition.leader >= 0]


def _wait_until_it_answers(process: subprocess.Popen[bytes], servers: str, data: Path) -> bool:
    """Return whether this very broker answers; False once it has ended, or when time is up."""
    deadline = time.monotonic() + START_TIMEOUT_S
    host, port = servers.split(":")
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), _POLL_S).close()
        except OSError:
            time.sleep(_POLL_S)
            continue
        admin = AdminClient({"bootstrap.servers": servers}, logger=QUIET)
        with contextlib.suppress(KafkaException):
            found = admin.list_topics(timeout=min(_ADMIN_TIMEOUT_S, deadline - time.monotonic()))
            # Another Kafka that won the race for the port would answer, too.
            if found.cluster_id and found.cluster_id in (data / "meta.properties").read_text():
                return True
        time.sleep(_POLL_S)
    return False


def _last_port(properties: Path) -> int | None:
    """Return the port of the plain listener by the settings of an earlier start; None without."""
    try:
        found = re.search(r"^listeners=PLAINTEXT://[^:]+:(\d+)", properties.read_text(), re.M)
    except OSError:
        return None
    return None if found is None else int(found[1])
