"""Kinds of databases: which package reads a declared table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sources.common.database_snapshot import BinlogSnapshot, DatabaseSnapshot
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions, kind_of
from sources.databases.altered_table import Names, TableWatch
from sources.databases.captured_table import (
    CapturedTable,
    DatabaseTable,
    Exported,
    NewColumns,
    OpenTable,
)
from sources.databases.log_mark import Mark
from sources.decoding.changes.added_columns import AddedColumn

# Each kind needs an extra of its own, so that only one of them may be there.


def open_table(table: CapturedTable) -> AbstractContextManager[OpenTable]:
    """Connect to the database of a table, and check that its changes can be followed.

    Args:
        table: The table, and how its database is reached.

    Returns:
        A context manager with the table; the connections end with it.

    Raises:
        InputError: The extra of this kind of database is not installed. From the context manager:
            the database refuses the login or a permission, or the table does not fit.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or a connection was lost, in the body, too.
    """
    if table.options.kind == "mariadb":
        from sources.databases.mariadb.snapshot import table as mariadb  # noqa: PLC0415

        return mariadb.open_table(table)
    from sources.databases.postgres import table as postgres  # noqa: PLC0415

    return postgres.open_table(table)


def export(table: CapturedTable) -> AbstractContextManager[Exported]:
    """Take a snapshot of a database that its tables can share.

    Args:
        table: One of the tables, by which the database is reached.

    Returns:
        A context manager with the snapshot, which lasts as long; it raises what
        :func:`open_table` raises.
    """
    if table.options.kind == "mariadb":
        from sources.databases.mariadb.snapshot import table as mariadb  # noqa: PLC0415

        return mariadb.export(table)
    from sources.databases.postgres import table as postgres  # noqa: PLC0415

    return postgres.export(table)


def find_tables(dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
    """Return the tables of a database with the columns and keys that a pipeline declares.

    Args:
        dsn: How the database is reached, as ``snapshot.dsn``.
        is_wanted: Decides by the table's name, ``schema.table`` or ``database.table``.

    Raises:
        InputError: The extra of this kind of database is not installed, or it refuses the login.
        UnavailableError: The database does not answer.
    """
    if kind_of(dsn) == "mariadb":
        from sources.databases.mariadb import tables as mariadb  # noqa: PLC0415

        return mariadb.find_tables(dsn, is_wanted)
    from sources.databases.postgres import tables as postgres  # noqa: PLC0415

    with postgres.connect_to(dsn) as connection:
        names = filter(is_wanted, postgres.list_tables(connection))
        return [postgres.describe_table(connection, name) for name in names]


def mark_log(options: SnapshotOptions) -> Mark:
    """Return a position in a database's log that divides all transactions.

    Each change that is in a topic when this is called is from before it.

    Args:
        options: The declared snapshot, which says how the database is reached.

    Raises:
        InputError: The extra of this kind of database is not installed; or the database refuses, or
            can't give such a position.
        UnavailableError: The database does not answer.
    """
    if options.kind == "mariadb":
        from sources.databases.mariadb.log import mark as mariadb  # noqa: PLC0415

        return mariadb.mark_log(options)
    from sources.databases.postgres import mark as postgres  # noqa: PLC0415

    return postgres.mark_log(options)


def find_added_columns(new: NewColumns) -> dict[str, AddedColumn]:
    """Return type of columns that a table got later, and the default that its older rows hold.

    Args:
        new: The columns, their table, and how its database is reached.

    Raises:
        UnknownDefault: What rows from before hold can't be known.
        UnavailableError: The database or the broker does not answer.
        InputError: The extra of this kind of database is not installed, or the database or the
            broker refuses the login or a permission.
    """
    if new.options.kind == "mariadb":
        from sources.databases.mariadb import added_columns as mariadb  # noqa: PLC0415

        return mariadb.find_added_columns(new)
    from sources.databases.postgres import added_columns as postgres  # noqa: PLC0415

    return postgres.find_added_columns(new)


def find_types(options: SnapshotOptions, table: str) -> dict[str, str]:
    """Return the Spark SQL types that a table's columns have now, by name.

    Args:
        options: How the database is reached.
        table: Name of the table.

    Raises:
        UnavailableError: The database does not answer.
        InputError: The extra of this kind of database is not installed, or the database refuses
            the login or the table.
    """
    if options.kind == "mariadb":
        from sources.databases.mariadb import added_columns as mariadb  # noqa: PLC0415

        return mariadb.find_types(options, table)
    from sources.databases.postgres import added_columns as postgres  # noqa: PLC0415

    return postgres.find_types(options, table)


def look_at_table(
    table: CapturedTable,
    topic: KafkaSource,
    names: Names,
    before: TableWatch,
    snapshot: DatabaseSnapshot,
) -> TableWatch:
    """Return what a look at a captured table sees; why it sees nothing, if the database refuses.

    Args:
        table: The table, and how its database is reached.
        topic: The topic of its changes.
        names: Names of its captured columns.
        before: What the last look saw; its time is that of this one.
        snapshot: What the snapshot of the table contains.

    Raises:
        HybridError: The database or the broker does not answer, or refuses.
    """
    if table.options.kind == "mariadb":
        from sources.databases.mariadb import table_look as mariadb  # noqa: PLC0415

        assert isinstance(snapshot, BinlogSnapshot)  # it was taken of this kind of database
        return mariadb.look_at_table(table, topic, names, before, snapshot)
    from sources.databases.postgres import table_look as postgres  # noqa: PLC0415

    return postgres.look_at_table(table, topic, names, before)


def server_of(table: CapturedTable) -> str:
    """Return ``host:port`` of a table's database, for messages; without user and password."""
    if table.options.kind == "mariadb":
        from sources.databases.mariadb import server as mariadb  # noqa: PLC0415

        return mariadb.server_of(table.options.dsn)
    from sources.databases.postgres import server as postgres  # noqa: PLC0415

    return postgres.server_of(table.options.dsn)
