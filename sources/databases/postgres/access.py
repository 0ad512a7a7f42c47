"""Access to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sources.common.database_snapshot import DatabaseSnapshot
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.databases.access import Access
from sources.databases.altered_table import Names, TableWatch
from sources.databases.captured_table import (
    CapturedTable,
    DatabaseTable,
    Exported,
    NewColumns,
    OpenTable,
)
from sources.databases.log_mark import Mark
from sources.databases.postgres import added_columns, mark, server, slot, tables
from sources.databases.postgres import table as table_module
from sources.databases.postgres.table_look import look_at_table
from sources.databases.slot import Slot
from sources.decoding.changes.added_columns import AddedColumn


class PostgresAccess(Access):
    """Access to PostgreSQL."""

    def open_table(self, table: CapturedTable) -> AbstractContextManager[OpenTable]:
        """Open a table."""
        return table_module.open_table(table)

    def export(self, table: CapturedTable) -> AbstractContextManager[Exported]:
        """Export a snapshot."""
        return table_module.export(table)

    def find_tables(self, dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
        """Return the tables of the database."""
        with tables.connect_to(dsn) as connection:
            names = filter(is_wanted, tables.list_tables(connection))
            return [tables.describe_table(connection, name) for name in names]

    def mark_log(self, options: SnapshotOptions) -> Mark:
        """Write a message into the log."""
        return mark.mark_log(options)

    def ask_slot(self, options: SnapshotOptions) -> Slot | str:
        """Return the state of the replication slot."""
        return slot.ask_slot(options)

    def find_added_columns(self, new: NewColumns) -> dict[str, AddedColumn]:
        """Return the columns by the catalog."""
        return added_columns.find_added_columns(new)

    def find_types(self, options: SnapshotOptions, table: str) -> dict[str, str]:
        """Return the types of a table's columns."""
        return added_columns.find_types(options, table)

    def look_at_table(
        self,
        table: CapturedTable,
        topic: KafkaSource,
        names: Names,
        before: TableWatch,
        snapshot: DatabaseSnapshot,
    ) -> TableWatch:
        """Look at the catalog."""
        del snapshot
        return look_at_table(table, topic, names, before)

    def server_of(self, dsn: str) -> str:
        """Return the server's address."""
        return server.server_of(dsn)
