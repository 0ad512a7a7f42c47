"""Servers that all workers of a test run share: one of a kind, started when the first test asks.

Workers of pytest-xdist end at different times, so none of them can own a server. A process of its
own, the keeper, starts servers and keeps them until the test run ends.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.managers import BaseManager
from pathlib import Path
from threading import Lock
from typing import Any, cast

from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.connect import LocalConnect
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from hybrid_extensions.servers.databases.mysql import LocalMySql
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.services.hdfs_server import hdfs_server

_ADDRESS, _KEY = "HYBRID_TEST_SERVERS", "HYBRID_TEST_SERVERS_KEY"
_PR_SET_PDEATHSIG = 1
# Retention looks every few minutes otherwise, compaction every 15 s.
_BROKER = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "300",
}
# Every worker captures a table or two at a time.
_POSTGRES = {"max_replication_slots": "40", "max_wal_senders": "40", "max_connections": "200"}


class Servers:
    """The servers; lives in the keeper, where its methods may be called from several threads."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._found: dict[str, Any] = {}
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))

    def broker(self) -> str:
        """Address of a Kafka broker."""
        return cast("str", self._one("broker", self._start_broker))

    def postgres(self) -> tuple[int, str]:
        """Port and password of a PostgreSQL."""
        return cast("tuple[int, str]", self._one("postgres", self._start_postgres))

    def mariadb(self) -> tuple[int, str]:
        """Port and password of a MariaDB."""
        return cast("tuple[int, str]", self._one("mariadb", self._start_mariadb))

    def mysql(self) -> tuple[int, str]:
        """Port and password of a MySQL."""
        return cast("tuple[int, str]", self._one("mysql", self._start_mysql))

    def connect(self, jars: str) -> tuple[int, Path]:
        """Port and log of a Kafka Connect with a set of jars."""
        return cast("tuple[int, Path]", self._one(jars, lambda: self._start_connect(jars)))

    def namenode(self) -> str:
        """Address of an HDFS."""
        return cast("str", self._one("hdfs", self._start_hdfs))

    def close(self) -> None:
        """End all servers."""
        self._stack.close()

    def _one(self, kind: str, start: Callable[[], Any]) -> Any:
        with self._locks[kind]:
            if kind not in self._found:
                self._found[kind] = start()
            return self._found[kind]

    def _start_broker(self) -> str:
        return self._stack.enter_context(LocalBroker(config=_BROKER)).bootstrap_servers

    def _start_postgres(self) -> tuple[int, str]:
        server = self._stack.enter_context(LocalPostgres(settings=_POSTGRES))
        return server.port, server.password

    def _start_mariadb(self) -> tuple[int, str]:
        server = self._stack.enter_context(LocalMariaDb())
        return server.port, server.password

    def _start_mysql(self) -> tuple[int, str]:
        server = self._stack.enter_context(LocalMySql())
        return server.port, server.password

    def _start_connect(self, jars: str) -> tuple[int, Path]:
        settings = {"value.converter.schemas.enable": "true"}
        worker = LocalConnect(self.broker(), settings=settings, jars=jars)
        self._stack.enter_context(worker)
        return worker.port, worker.log

    def _start_hdfs(self) -> str:
        folder = self._folder / "hdfs"
        folder.mkdir()
        return self._stack.enter_context(hdfs_server(folder))


class _Keeper(BaseManager):
    """Process with the servers, and the connection to it."""


@contextmanager
def keeper() -> Iterator[None]:
    """Keep servers for this process and its children, which find the keeper by the environment."""
    servers = Servers()
    _Keeper.register("servers", callable=lambda: servers)
    key = secrets.token_hex(16)
    made = _Keeper(authkey=key.encode())
    made.start(_end_with_parent)
    os.environ[_ADDRESS], os.environ[_KEY] = str(made.address), key
    try:
        yield
    finally:
        _servers_of(made).close()
        made.shutdown()


def shared() -> Servers:
    """The servers of this test run, in the keeper: each method starts its server at need.

    Raises:
        HybridError: A server can't be had, or does not start; from the call of the method.
    """
    _Keeper.register("servers")
    found = _Keeper(os.environ[_ADDRESS], os.environ[_KEY].encode())
    found.connect()
    return _servers_of(found)


def shared_postgres() -> LocalPostgres:
    """The PostgreSQL, as a client sees it: not to be started or ended."""
    server = LocalPostgres()
    server.port, server.password = shared().postgres()
    return server


def shared_mariadb() -> LocalMariaDb:
    """The MariaDB, as a client sees it: not to be started or ended."""
    server = LocalMariaDb()
    server.port, server.password = shared().mariadb()
    return server


def shared_mysql() -> LocalMySql:
    """The MySQL, as a client sees it: not to be started or ended."""
    server = LocalMySql()
    server.port, server.password = shared().mysql()
    return server


def shared_connectors(jars: str) -> Connectors:
    """The connectors of the Kafka Connect with a set of jars."""
    return Connectors(*shared().connect(jars))


def _servers_of(manager: _Keeper) -> Servers:
    return cast("Servers", manager.servers())  # type: ignore[attr-defined]


def _end_with_parent() -> None:
    """Ask the kernel to end this process if its parent is killed; its servers end with it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
