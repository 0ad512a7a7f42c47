"""What follows a database's log in the demo: Kafka Connect, or a change log without Kafka."""

from __future__ import annotations

import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hybrid_extensions.change_log.position import group_of
from hybrid_extensions.change_log.segments import Segments
from hybrid_extensions.servers.connect import LocalConnect
from hybrid_extensions.servers.process import HOST, Service, end, free_ports, kill, spawn
from sources.errors import RunError
from sources.storage.folder import Folder

NAME = "shop"
"""Name of the connector, and prefix of its topics."""
_POLL_S = 0.2
_START_S = 180.0
_GIVES_UP_S = 60.0
_SERVED = "The change log is served at"


class ChangeFeed(Service):
    """Writer of a database's changes to topics, with one connector.

    Attributes:
        servers: Address at which the topics are read.
    """

    servers: str

    @abstractmethod
    def follow(self, connector: Mapping[str, str]) -> None:
        """Follow the log of a database; called once, with the connector's settings."""

    @abstractmethod
    def crash(self) -> None:
        """Kill it, and start it and its connector again."""

    @abstractmethod
    def revive(self) -> None:
        """Start the connector again if it has given up, as after a crash of the database."""


class ConnectFeed(ChangeFeed):
    """Kafka Connect.

    Args:
        folder: Its folder.
        servers: Address of the broker.
        jars: Set of jars with the connector.
    """

    def __init__(self, folder: Path, servers: str, jars: str) -> None:
        self.servers = servers
        settings = {"value.converter.schemas.enable": "true"}
        self._connect = LocalConnect(servers, folder / "connect", settings, jars)
        self._connector: Mapping[str, str] = {}

    @property
    def url(self) -> str:
        """Address of the connector in the REST interface."""
        return self._connect.connectors.url(NAME)

    def start(self) -> None:
        """Start the worker."""
        self._connect.start()

    def stop(self) -> None:
        """End the worker."""
        self._connect.stop()

    def follow(self, connector: Mapping[str, str]) -> None:
        """Create the connector."""
        self._connector = connector
        self._connect.connectors.create(NAME, connector)

    def crash(self) -> None:
        """Kill the worker; its connector has to be created again."""
        self._connect.kill()
        self._connect.connectors.create(NAME, self._connector)

    def revive(self) -> None:
        """Create the connector again once it does not run, if that is within a minute."""
        deadline = time.monotonic() + _GIVES_UP_S
        while time.monotonic() < deadline:
            if not self._connect.connectors.is_running(NAME):
                self._connect.connectors.delete(NAME)
                self._connect.connectors.create(NAME, self._connector)
                return
            time.sleep(_POLL_S)


class LogFeed(ChangeFeed):
    """``hybrid change-log``, which goes on by itself after a crash of the database.

    Args:
        folder: Folder of the log and its file.
    """

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.servers = f"{HOST}:{port}"
        self._file, self._output = folder / "shop-log.yaml", folder / "change-log.out"
        self._folder = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._segments: Segments | None = None

    def start(self) -> None:
        """Do nothing: the log is started by :meth:`follow`, which knows the tables."""

    def stop(self) -> None:
        """End the process; do nothing if it does not run."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def follow(self, connector: Mapping[str, str]) -> None:
        """Write the log's file, start the log, and wait until it is served."""
        of_kafka = ("topic.creation", "schema.history")
        settings = {n: value for n, value in connector.items() if not n.startswith(of_kafka)}
        document = {"path": str(self._folder), "listen": self.servers, "connector": settings}
        self._file.write_text(yaml.safe_dump(document, sort_keys=False))
        self._run()

    def crash(self) -> None:
        """Kill the process, and start it again."""
        if self._process is not None:
            kill(self._process)
        self._run()

    def revive(self) -> None:
        """Do nothing: the log begins again by itself."""

    @property
    def reached(self) -> tuple[int, int] | None:
        """File's number and position in a binary log up to which it was read; None if unknown."""
        # All of them are listed once: a look is about those that were written since the last one.
        self._segments = self._segments or Segments(Folder(self._folder))
        self._segments.refresh()
        start: Mapping[str, Any] | None = self._segments.last.position.get("start")
        if start is None:
            return None
        file, position = group_of(start)
        return file, position

    def _run(self) -> None:
        before = self._served()
        command = [str(Path(sys.executable).with_name("hybrid")), "change-log", str(self._file)]
        self._process = spawn(command, self._output)
        deadline = time.monotonic() + _START_S
        while self._served() == before:
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = f"The change log was not served; {self._output} says why."
                raise RunError(message, "Correct that, and run the demo again.", transient=False)
            time.sleep(_POLL_S)

    def _served(self) -> int:
        return self._output.read_text().count(_SERVED) if self._output.exists() else 0
