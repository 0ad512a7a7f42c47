"""The databases of the demo, with what follows their logs: started, captured, and made to crash."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from examples.change_feed import NAME, ConnectFeed, LogFeed
from examples.shop import connect, execute
from hybrid_extensions.mariadb.log.connector import ReadUpTo, ask_connector
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.mariadb.snapshot.capture_checks import log_status
from hybrid_extensions.servers.connect import binlog_config, debezium_config
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb, add_client_to_path
from hybrid_extensions.servers.databases.mysql import LocalMySql
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.process import Service
from sources.errors import RunError

_POLL_S = 0.5
_DELIVERY_S = 900.0


class CapturedDatabase(Service):
    """A database with Debezium's connector, which writes the changes of some tables to topics.

    Args:
        folder: Folder of both services; they find their data there after a crash.
        servers: Address of the broker; None for a change log without Kafka.

    Attributes:
        feed: Kafka Connect, or the change log.
        dsn: Connection string of the database, for :func:`examples.shop.connect`.
        schema: Schema of the tables; of MariaDB and MySQL, the database.
    """

    jars: ClassVar[str]
    schema: str
    dsn: str

    def __init__(self, folder: Path, servers: str | None) -> None:
        self.feed: ConnectFeed | LogFeed = (
            LogFeed(folder) if servers is None else ConnectFeed(folder, servers, self.jars)
        )

    def start(self) -> None:
        """Start the database and what follows its log."""
        self._start_server()
        self.feed.start()

    def stop(self) -> None:
        """End both."""
        self.feed.stop()
        self._stop_server()

    def capture(self, tables: Sequence[str]) -> None:
        """Start the connector, and wait until it reads the log.

        Args:
            tables: Names of tables without their schema.
        """
        self.feed.follow(self._connector_of([f"{self.schema}.{table}" for table in tables]))
        self.wait_until_read()

    def crash_connector(self) -> None:
        """Kill what follows the log, and start it again."""
        self.feed.crash()

    def crash_server(self) -> None:
        """Kill the database, start it again, and the connector, if that has given up."""
        self._kill_server()
        self._start_server()
        self.feed.revive()

    def wait_until_read(self) -> None:
        """Wait until the connector has read all that is committed in the database now.

        Raises:
            RunError: It has not done so within 15 minutes.
        """
        is_read = self._reads_from_here()
        deadline = time.monotonic() + _DELIVERY_S
        while time.monotonic() < deadline:
            if is_read():
                return
            time.sleep(_POLL_S)
        message = f"The connector has not read the log within {_DELIVERY_S:.0f} s."
        raise RunError(message, "Look at the connector's log in the demo's folder.")

    @property
    @abstractmethod
    def declared(self) -> dict[str, str]:
        """Fields of ``database`` in a pipeline's file."""

    @abstractmethod
    def _start_server(self) -> None: ...

    @abstractmethod
    def _stop_server(self) -> None: ...

    @abstractmethod
    def _kill_server(self) -> None: ...

    @abstractmethod
    def _connector_of(self, tables: Sequence[str]) -> dict[str, str]: ...

    @abstractmethod
    def _reads_from_here(self) -> Callable[[], bool]:
        """Return whether the connector has read the log up to its end at this call."""


class Postgres(CapturedDatabase):
    """PostgreSQL."""

    jars = "connect"
    schema = "public"

    def __init__(self, folder: Path, servers: str | None) -> None:
        super().__init__(folder, servers)
        self._server = LocalPostgres(folder / "postgres")

    @property
    def declared(self) -> dict[str, str]:
        """Its address, and the slot that the connector reads."""
        return {"dsn": self.dsn, "slot": NAME}

    def _start_server(self) -> None:
        self._server.start()
        os.environ["PGPASSWORD"] = self._server.password
        self.dsn = self._server.dsn

    def _stop_server(self) -> None:
        self._server.stop()

    def _kill_server(self) -> None:
        self._server.kill()

    def _connector_of(self, tables: Sequence[str]) -> dict[str, str]:
        return debezium_config(self._server, NAME, tables, snapshot_mode="no_data")

    def _reads_from_here(self) -> Callable[[], bool]:
        with connect(self.dsn) as connection:
            (end,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()

        def is_read() -> bool:
            with connect(self.dsn) as connection:
                # A change that advances the slot when there are no others.
                connection.execute(
                    "INSERT INTO stock (sku, pieces) VALUES ('nobody buys this', 0) "
                    "ON CONFLICT (sku) DO UPDATE SET pieces = 0"
                )
                found = connection.execute(
                    "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots "
                    "WHERE slot_name = %s",
                    [end, NAME],
                ).fetchone()
            return found is not None and bool(found[0])

        return is_read


class _Binlog(CapturedDatabase):
    """MariaDB or MySQL."""

    schema = NAME
    server: ClassVar[type[MySqlServer]]

    def __init__(self, folder: Path, servers: str | None) -> None:
        super().__init__(folder, servers)
        # What is committed is with the operating system, as in the binary log, and survives a kill.
        settings = {"innodb-flush-log-at-trx-commit": "2"}
        self._server = self.server(folder / self.server.scheme, settings)

    @property
    def declared(self) -> dict[str, str]:
        """Its address, and with Kafka Connect that of the connector."""
        connector = {"connector": self.feed.url} if isinstance(self.feed, ConnectFeed) else {}
        return {"dsn": self.dsn, **connector}

    def _start_server(self) -> None:
        self._server.start()
        add_client_to_path()
        os.environ["MYSQL_PWD"] = self._server.password
        self._server.execute(f"CREATE DATABASE IF NOT EXISTS {NAME} CHARACTER SET utf8mb4")
        self.dsn = self._server.dsn(NAME)

    def _stop_server(self) -> None:
        self._server.stop()

    def _kill_server(self) -> None:
        self._server.kill()

    def _connector_of(self, tables: Sequence[str]) -> dict[str, str]:
        heartbeats = {"heartbeat_interval_ms": "500", "connect_keep_alive_interval_ms": "2000"}
        more = {"snapshot_mode": "no_data", **heartbeats}
        return binlog_config(self._server, NAME, tables, self.feed.servers, **more)

    def _reads_from_here(self) -> Callable[[], bool]:
        with connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT version()")
            cursor.execute(log_status(*cursor.fetchone()))
            file, position, *_ = cursor.fetchone()

        def is_read() -> bool:
            # A change that moves the connector's place when there are no others.
            execute(
                self.dsn,
                "INSERT INTO stock (sku, pieces) VALUES ('nobody buys this', 0) "
                "ON DUPLICATE KEY UPDATE pieces = 1 - pieces",
            )
            reached = self._reached()
            return reached is not None and reached >= (file_number(file), position)

        return is_read

    def _reached(self) -> tuple[int, int] | None:
        """Return number of the file and position up to which the log was read; None if unknown."""
        if isinstance(self.feed, LogFeed):
            return self.feed.reached
        read = ask_connector(self.feed.url)
        return (read.file, read.offset) if isinstance(read, ReadUpTo) and read.file else None


class MariaDb(_Binlog):
    """MariaDB."""

    jars = "connect-mariadb"
    server = LocalMariaDb


class MySql(_Binlog):
    """MySQL."""

    jars = "connect-mysql"
    server = LocalMySql


KINDS: dict[str, type[CapturedDatabase]] = {
    "postgres": Postgres,
    "mariadb": MariaDb,
    "mysql": MySql,
}
"""The databases of the demo, by name."""
