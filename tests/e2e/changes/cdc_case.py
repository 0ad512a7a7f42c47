"""A PostgreSQL database of its own, its connector, and a pipeline that takes a table over."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy
from hybrid_extensions.compare.compare_source import SourceComparison, compare_with_source
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.connect import debezium_config
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.snapshot import SnapshotManifest
from tests.e2e.case import TRANSFORMS
from tests.e2e.changes.captured import captured
from tests.services.processes import wait_for

ORDERS = {
    "id": "bigint",
    "customer": "string",
    "amount": "decimal(12,2)",
    "placed": "timestamp",
    "day": "date",
    "paid": "boolean",
    "receipt": "binary",
}
LINES = {"order_id": "bigint", "line": "int", "product": "string", "quantity": "int"}
STOCK = {"sku": "string", "pieces": "int", "price": "double", "changed": "timestamp"}
INCLUDE = {
    "_position": "position",
    "_lsn": "lsn",
    "_transaction": "transaction",
    "_committed_at": "committed_at",
    "_deleted": "deleted",
}


class CdcCase:
    """One database, with topics and a slot of its own.

    Args:
        folder: Where the pipelines are.
        postgres: The server.
        servers: The broker.
        connect: Where the connectors run.
    """

    def __init__(
        self, folder: Path, postgres: LocalPostgres, servers: str, connect: Connectors
    ) -> None:
        self.folder = folder
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        self._postgres = postgres
        self.servers = servers
        self._connect = connect
        os.environ["PGPASSWORD"] = postgres.password
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")
        self.dsn = postgres.dsn.replace("dbname=postgres", f"dbname={self.name}")
        self._connectors: list[str] = []
        self._topics: set[str] = set()
        (folder / "transforms.py").write_text(TRANSFORMS)

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def capture(self, tables: Sequence[str], name: str | None = None, **more: str) -> None:
        """Start a connector, and wait until its slot is there."""
        prefix = name or self.name
        for topic in {f"{prefix}.{table}" for table in tables} - self._topics:
            create_topic(self.servers, topic, 3, {"retention.ms": "-1"})
            self._topics.add(topic)
        config = debezium_config(self._postgres, prefix, tables, database_dbname=self.name, **more)
        self.connect(prefix, config)

    def connect(self, prefix: str, config: Mapping[str, str]) -> None:
        """Start a connector with these settings, and wait until its slot is there."""
        self._connect.create(prefix, config)
        self._connectors.append(prefix)

        def has_slot() -> bool:
            with psycopg.connect(self.dsn) as connection:
                found = connection.execute(
                    "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active "
                    "AND confirmed_flush_lsn IS NOT NULL",
                    [prefix],
                )
                return found.fetchone() is not None

        wait_for(has_slot, "the slot", 60)

    def extend(self, table: str) -> None:
        """Let the connector follow another table; returns once the database tells of it."""
        config = self._connect.delete(self.name)
        tables = f"{config['table.include.list']},{table}"
        self._connect.create(self.name, {**config, "table.include.list": tables})
        self._wait_until_published(table)

    def republish(self, table: str) -> None:
        """Start the connector again, which then publishes the table that has this name now."""
        self.restart()
        self._wait_until_published(table)

    def _wait_until_published(self, table: str) -> None:
        def is_published() -> bool:
            with psycopg.connect(self.dsn) as connection:
                found = connection.execute(
                    "SELECT 1 FROM pg_publication_tables WHERE pubname = %s "
                    "AND schemaname || '.' || tablename = %s",
                    [self.name, table],
                )
                return found.fetchone() is not None

        wait_for(is_published, f"the publication of {table}", 60)

    def restart(self, name: str | None = None) -> None:
        """End the connector and start it again, where it was."""
        prefix = name or self.name
        config = self._connect.delete(prefix)
        self._connect.create(prefix, config)

    def end(self) -> None:
        """Leave no connector and no slot behind: both would go on."""
        while self._connectors:
            name = self._connectors.pop()
            self._connect.delete(name)

            def is_idle(name: str = name) -> bool:
                with psycopg.connect(self.dsn, autocommit=True) as connection:
                    query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
                    row = connection.execute(query, [name]).fetchone()
                    if row is not None and not row[0]:
                        connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
                    return row is None or not row[0]

            wait_for(is_idle, "the connector's end", 60)

    def pipeline(
        self,
        table: str = "orders",
        columns: dict[str, str] | None = None,
        key: Sequence[str] = ("id",),
        edit: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> LoadedPipeline:
        """The declaration of one table, after ``edit``."""
        database = {"dsn": self.dsn, "slot": self.name}
        topic = {
            "topic": f"{self.name}.public.{table}",
            "bootstrap_servers": self.servers,
            "table": f"public.{table}",
            "schema": columns or ORDERS,
            "include": INCLUDE,
        }
        return captured(self.folder, table, database, topic, key, edit)


def take_snapshot(
    loaded: LoadedPipeline, report: Callable[[str], None] = lambda _: None
) -> SnapshotManifest:
    """What ``hybrid snapshot`` does."""
    source = loaded.pipeline.sources[0]
    assert isinstance(source, FileSource)
    return SnapshotCopy(loaded, source, report).take()


def is_equal(loaded: LoadedPipeline) -> Callable[[object], bool]:
    """Asks whether the target holds what the table holds; says what differs as long as not."""
    last: list[SourceComparison] = []

    def ask(_: object) -> bool:
        last[:] = [compare_with_source(loaded)]
        return last[0].ok

    return ask
