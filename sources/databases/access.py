"""What is asked of a database, whatever its kind; each kind has one object that answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from sources.common.database_snapshot import DatabaseSnapshot
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.databases.altered_table import Names, TableWatch
from sources.databases.captured_table import (
    CapturedTable,
    DatabaseTable,
    Exported,
    NewColumns,
    OpenTable,
)
from sources.databases.log_mark import Mark
from sources.databases.slot import Slot
from sources.decoding.changes.added_columns import AddedColumn


class Access(ABC):
    """Access to databases of a kind.

    Unless it is said otherwise, a method raises InputError if the database refuses the login or a
    permission, and UnavailableError if it does not answer.
    """

    @abstractmethod
    def open_table(self, table: CapturedTable) -> AbstractContextManager[OpenTable]:
        """Connect to the database of a table, and check that its changes can be followed.

        Args:
            table: The table, and how its database is reached.

        Returns:
            A context manager with the table; the connections end with it. It raises the errors,
            InputError also if the table does not fit, and QueryError if a query failed or a
            connection was lost, in the body, too.
        """

    @abstractmethod
    def export(self, table: CapturedTable) -> AbstractContextManager[Exported]:
        """Take a snapshot of a database that its tables can share.

        Args:
            table: One of the tables, by which the database is reached.

        Returns:
            A context manager with the snapshot, which lasts as long; it raises what
            :meth:`open_table` raises.
        """

    @abstractmethod
    def find_tables(self, dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
        """Return the tables of a database with the columns and keys that a pipeline declares.

        Args:
            dsn: How the database is reached, as ``snapshot.dsn``.
            is_wanted: Decides by the table's name, ``schema.table`` or ``database.table``.
        """

    @abstractmethod
    def mark_log(self, options: SnapshotOptions) -> Mark:
        """Return a position in a database's log that divides all transactions.

        Each change that is in a topic when this is called is from before it.

        Args:
            options: The declared snapshot, which says how the database is reached.

        Raises:
            InputError: As above, or it can't give such a position.
        """

    @abstractmethod
    def ask_slot(self, options: SnapshotOptions) -> Slot | str:
        """Return the place of the connector in the log, or why it is not known. Raises no error.

        Args:
            options: The declared snapshot, with slot or connector.
        """

    @abstractmethod
    def find_added_columns(self, new: NewColumns) -> dict[str, AddedColumn]:
        """Return type of columns that a table got later, and the default that older rows hold.

        Args:
            new: The columns, their table, and how its database is reached.

        Raises:
            UnknownDefault: What rows from before hold can't be known.
            InputError, UnavailableError: As above, also of the broker.
        """

    @abstractmethod
    def find_types(self, options: SnapshotOptions, table: str) -> dict[str, str]:
        """Return the Spark SQL types that a table's columns have now, by name.

        Args:
            options: How the database is reached.
            table: Name of the table.
        """

    @abstractmethod
    def look_at_table(
        self,
        table: CapturedTable,
        topic: KafkaSource,
        names: Names,
        before: TableWatch,
        snapshot: DatabaseSnapshot,
    ) -> TableWatch:
        """Return what a look at a captured table sees, or why it sees nothing.

        Args:
            table: The table, and how its database is reached.
            topic: The topic of its changes.
            names: Names of its captured columns.
            before: What the last look saw; its time is that of this one.
            snapshot: What the snapshot of the table contains.

        Raises:
            HybridError: The database or the broker does not answer, or refuses.
        """

    @abstractmethod
    def server_of(self, dsn: str) -> str:
        """Return ``host:port`` of a database, for messages; without user and password."""
