"""A database with a change log in a process of its own, which can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import yaml

from hybrid_extensions.change_log.segments import Change, Segments
from hybrid_extensions.servers.connect import binlog_config, debezium_config
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.process import HOST, children_of, free_ports
from sources.storage.folder import Folder
from tests.services.processes import wait_for


class LogProcess:
    """The command on a change log.

    Args:
        folder: Where its file is.
        connector: Debezium's settings.
        more: More fields of the file.
    """

    def __init__(self, folder: Path, connector: Mapping[str, str], **more: Any) -> None:
        (self.port,) = free_ports(1)
        self.servers = f"{HOST}:{self.port}"
        self.path = folder / "log.yaml"
        self.folder = folder / "log"
        self.output = folder / "change-log.out"
        settings = {
            name: value
            for name, value in connector.items()
            if not name.startswith(("topic.creation", "schema.history"))
        }
        document = {"path": "log", "listen": self.servers, "connector": settings, **more}
        self.path.write_text(yaml.safe_dump(document))
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def declare(self, **more: Any) -> None:
        """Add fields to its file, before it is started."""
        document = yaml.safe_load(self.path.read_text())
        self.path.write_text(yaml.safe_dump(document | more))

    def start(self) -> None:
        """Start it, and wait until it is served, from where the log begins."""
        command = [str(Path(sys.executable).with_name("hybrid")), "change-log", str(self.path)]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self._starts += 1
        served = "The change log is served at"
        wait_for(
            lambda: self.said.count(served) == self._starts or not self.runs,
            lambda: self.said,
            180,
        )
        assert self.runs, self.said

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """All that it has printed."""
        return self.output.read_text()

    @property
    def engine(self) -> int | None:
        """Process of its engine."""
        assert self._process is not None
        return next(iter(children_of(self._process.pid)), None)

    def kill(self) -> None:
        """End it by SIGKILL; its engine then ends by itself."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_engine(self) -> None:
        """End its engine by SIGKILL."""
        if (pid := self.engine) is not None:
            os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        """End it as people do; returns its exit status."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(30)


class LoggedDatabase(ABC):
    """A database of its own with a change log of some tables.

    Attributes:
        name: Name of the database.
        dsn: How pipelines reach it.
        schema: Schema of its tables.
        log: The log's process.
    """

    name: str
    dsn: str
    schema: str
    log: LogProcess

    @abstractmethod
    def connect(self) -> Any:
        """A connection, to be closed by its user, whose transactions are committed by it."""

    def execute(self, *statements: str) -> list[Any]:
        """Each in a transaction of its own; returns the rows of the last one."""
        found: list[Any] = []
        connection = self.connect()
        for statement in statements:
            cursor = connection.cursor()
            cursor.execute(statement)
            found = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        connection.close()
        return found

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.name}.{self.schema}.{table}"

    def end(self) -> None:
        """End the log."""
        self.log.end()


class PostgresLog(LoggedDatabase):
    """A database of PostgreSQL.

    Args:
        folder: Where the log is.
        postgres: The server.
        statements: Make the tables.
        tables: Names of those that are captured.
        more: More of Debezium's settings, with underscores for dots.
    """

    schema = "public"

    def __init__(
        self,
        folder: Path,
        postgres: LocalPostgres,
        statements: Sequence[str],
        *tables: str,
        **more: str,
    ) -> None:
        self.name = f"log_{uuid.uuid4().hex[:8]}"
        os.environ["PGPASSWORD"] = postgres.password
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")
        self.dsn = postgres.dsn.replace("dbname=postgres", f"dbname={self.name}")
        self.execute(*statements)
        more |= {"database_dbname": self.name, "database_password": "${PGPASSWORD}"}
        names = [f"public.{table}" for table in tables]
        self.log = LogProcess(folder, debezium_config(postgres, self.name, names, **more))

    def connect(self) -> Any:
        return psycopg.connect(self.dsn)

    def end(self) -> None:
        """Leave no slot behind, either."""
        self.log.end()
        where = "FROM pg_replication_slots WHERE slot_name = current_database()"
        wait_for(lambda: not self.execute(f"SELECT 1 {where} AND active"), "the engine's end", 30)
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {where}")


class BinlogLog(LoggedDatabase):
    """A database of MariaDB or MySQL; arguments as for :class:`PostgresLog`."""

    def __init__(
        self,
        folder: Path,
        server: MySqlServer,
        statements: Sequence[str],
        *tables: str,
        **more: str,
    ) -> None:
        self.name = self.schema = f"log_{uuid.uuid4().hex[:8]}"
        self._server = server
        os.environ["MYSQL_PWD"] = server.password
        server.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.dsn = server.dsn(self.name)
        self.execute(*statements)
        more["database_password"] = "${MYSQL_PWD}"
        names = [f"{self.name}.{table}" for table in tables]
        self.log = LogProcess(folder, binlog_config(server, self.name, names, "", **more))

    def connect(self) -> Any:
        connection = self._server.connect(self.name)
        connection.autocommit(False)
        return connection


def changes_in(folder: Path) -> list[Change]:
    """All changes of a log, in the order of its segments; their offsets are dense."""
    segments = Segments(Folder(folder))
    found: list[Change] = []
    for topic in sorted(segments.last.ends):
        offset = segments.start(topic)
        while offset < segments.end(topic):
            rows = segments.read(topic, offset, 1 << 20)
            assert rows.first == offset
            found += [
                Change(topic, key, value) for key, value in zip(rows.keys, rows.values, strict=True)
            ]
            offset += len(rows.values)
    return found


def wait_for_change(log: LogProcess, topic: str, part: bytes) -> None:
    """Wait until the last change of a topic contains some bytes, for as long as the log grows."""

    def is_there() -> bool:
        segments = Segments(Folder(log.folder))
        end = segments.end(topic)
        return end > 0 and part in (segments.read(topic, end - 1).values[0] or b"")

    def size() -> int:
        return sum(1 for _ in log.folder.rglob("*.parquet"))

    def grows(before: int) -> bool:
        return is_there() or size() > before

    while not is_there():
        wait_for(partial(grows, size()), lambda: log.said, 300)
