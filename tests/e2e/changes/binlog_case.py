"""A database of its own in MariaDB or MySQL, its connector, and a pipeline of a table of it."""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pymysql.err import IntegrityError, OperationalError

from hybrid_extensions.cdc.tables.names import topic_part
from hybrid_extensions.mariadb.log.connector import ReadUpTo, ask_connector
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.connect import binlog_config
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from sources.config.loader import LoadedPipeline
from tests.e2e.case import TRANSFORMS
from tests.e2e.changes.captured import captured
from tests.services.processes import wait_for

INCLUDE = {"_position": "position", "_committed_at": "committed_at", "_deleted": "deleted"}


class BinlogCase:
    """One database, with topics of its own.

    Args:
        folder: Where the pipelines are.
        server: The server.
        servers: The broker.
        connect: Where the connectors run.
        database: Name of the database, of several servers that each have one of this name; else it
            is that of the topics' prefix.
    """

    def __init__(
        self,
        folder: Path,
        server: MySqlServer,
        servers: str,
        connect: Connectors,
        database: str | None = None,
    ) -> None:
        self.folder = folder
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        self.database = database or self.name
        self.server = server
        self.servers = servers
        self._connect = connect
        self._has_connector = False
        os.environ["MYSQL_PWD"] = server.password
        server.execute(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
        self.dsn = server.dsn(self.database)
        (folder / "transforms.py").write_text(TRANSFORMS)

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with self.server.connect(self.database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def capture(self, tables: Sequence[str], **more: str) -> None:
        """Start a connector, and wait until it reads the binary log."""
        for table in tables:
            create_topic(self.servers, self.topic(table), 3, {"retention.ms": "-1"})
        names = [f"{self.database}.{table}" for table in tables]
        more = {"snapshot_mode": "no_data", **more}
        config = binlog_config(self.server, self.name, names, self.servers, **more)
        self._connect.create(self.name, config)
        self._has_connector = True
        wait_for(self.is_read, "the connector to read the binary log", 60)

    def is_read(self) -> bool:
        """Whether a connector reads the server's binary log."""
        query = "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        with self.server.connect() as connection, connection.cursor() as cursor:
            return bool(cursor.execute(query))

    def wait_until_confirmed(self) -> None:
        """Wait until Kafka Connect shows how far the connector has read."""

        def is_confirmed() -> bool:
            found = ask_connector(self.connector)
            return isinstance(found, ReadUpTo) and found.file is not None

        wait_for(is_confirmed, "the connector to confirm a position", 60)

    @property
    def connector(self) -> str:
        """URL of the connector."""
        return self._connect.url(self.name)

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.name}.{self.database}.{topic_part(table)}"

    def end(self) -> None:
        """Leave no connector behind."""
        if self._has_connector:
            self._connect.delete(self.name)
            self._has_connector = False

    def pipeline(
        self,
        table: str,
        columns: dict[str, str],
        key: Sequence[str] = ("id",),
        edit: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> LoadedPipeline:
        """The declaration of one table, after ``edit``."""
        database = {"dsn": self.dsn}
        topic = {
            "topic": self.topic(table),
            "bootstrap_servers": self.servers,
            "table": f"{self.database}.{table}",
            "schema": columns,
            "include": INCLUDE,
        }
        return captured(self.folder, table, database, topic, key, edit)


ORDERS = {
    "id": "bigint",
    "customer": "string",
    "amount": "decimal(12,2)",
    "placed": "timestamp",
    "paid": "boolean",
    "receipt": "binary",
}


def numbers(last: int) -> str:
    """The beginning of a query of ``numbers``, whose ``seq`` is 1, 2, …, for both servers."""
    return (
        "WITH RECURSIVE numbers(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM numbers "
        f"WHERE seq < {last}) SELECT"
    )


_ORDERS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer varchar(99), amount decimal(12,2), "
    "placed datetime(6), paid boolean, receipt varbinary(64))",
    f"INSERT INTO orders {numbers(1000)} seq, concat('c', seq % 97), seq / 100, "
    "'2024-01-01' + INTERVAL seq SECOND, seq % 2, unhex(sha2(seq, 256)) FROM numbers",
    # Otherwise the server may scan, and lock, all rows for a few.
    "ANALYZE LOCAL TABLE orders",
)
# {a} and {b} are random numbers.
_CHANGES = (
    f"INSERT INTO orders {numbers(20)} {{a}} * 1000 + seq, 'new', rand() * 1000, "
    "now(6), NULL, NULL FROM numbers",
    "UPDATE orders SET amount = amount + 1, customer = 'é,\\'\\n' "
    "WHERE id BETWEEN {b} AND {b} + 20",
    "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + 4",
    "UPDATE orders SET id = id + {a} * 1000 WHERE id BETWEEN {b} AND {b} + 3",
    "UPDATE orders SET id = id + 1 WHERE id BETWEEN {b} AND {b} + 3 ORDER BY id DESC",
    f"REPLACE INTO orders {numbers(6)} {{b}} + seq, 'again', 1, now(6), false, "
    "x'00ff' FROM numbers",
)


def make_orders(case: BinlogCase) -> None:
    """Create a table of 1,000 rows."""
    case.execute(*_ORDERS)


class Customers:
    """Threads that change the orders all the time, in transactions of several statements.

    Args:
        server: The server.
        database: Name of the database.
        threads: Number of threads.
    """

    def __init__(self, server: MySqlServer, database: str, threads: int) -> None:
        self.server = server
        self._database = database
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._change, args=(number,)) for number in range(threads)
        ]
        self.transactions = 0

    def start(self) -> None:
        """Start all threads."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Let all threads end after their transactions."""
        self._stop.set()
        for each in self._threads:
            each.join()

    def _change(self, seed: int) -> None:
        numbers = random.Random(seed)
        with self.server.connect(self._database) as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.1):
                cursor.execute("BEGIN")
                for _ in range(numbers.randint(1, 3)):
                    a, b = numbers.randint(2, 10**9), numbers.randint(1, 1000)
                    try:
                        cursor.execute(numbers.choice(_CHANGES).format(a=a, b=b))
                    except (IntegrityError, OperationalError):
                        # A key that is taken, or a deadlock.
                        continue
                cursor.execute(numbers.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
                self.transactions += 1
