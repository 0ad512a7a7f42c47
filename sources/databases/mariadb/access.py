"""Access to MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sources.common.database_snapshot import BinlogSnapshot, DatabaseSnapshot
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
from sources.databases.mariadb import added_columns, server, tables
from sources.databases.mariadb.log import binlog, mark
from sources.databases.mariadb.snapshot import table as table_module
from sources.databases.mariadb.table_look import look_at_table
from sources.databases.slot import Slot
from sources.decoding.changes.added_columns import AddedColumn


class BinlogAccess(Access):
    """Access to MariaDB and MySQL."""

    def open_table(self, table: CapturedTable) -> AbstractContextManager[OpenTable]:
        """Open a table."""
        return table_module.open_table(table)

    def export(self, table: CapturedTable) -> AbstractContextManager[Exported]:
        """Begin a snapshot at one position of the binary log."""
        return table_module.export(table)

    def find_tables(self, dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
        """Return the tables of the database."""
        return tables.find_tables(dsn, is_wanted)

    def mark_log(self, options: SnapshotOptions) -> Mark:
        """Return the end of the binary log."""
        return mark.mark_log(options)

    def ask_slot(self, options: SnapshotOptions) -> Slot | str:
        """Return the connector's place in the binary log."""
        return binlog.ask_log(options)

    def find_added_columns(self, new: NewColumns) -> dict[str, AddedColumn]:
        """Return the columns by the statements that added them."""
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
        """Look at catalog and statements."""
        assert isinstance(snapshot, BinlogSnapshot)  # it was taken of this kind of database
        return look_at_table(table, topic, names, before, snapshot)

    def server_of(self, dsn: str) -> str:
        """Return the server's address."""
        return server.server_of(dsn)
