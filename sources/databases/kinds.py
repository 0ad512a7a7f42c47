"""Kinds of databases: which package reads a declared table."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sources.databases.captured_table import CapturedTable, OpenTable
from sources.databases.postgres.server import server_of as postgres_server_of
from sources.databases.postgres.table import open_table as open_postgres_table


def open_table(table: CapturedTable) -> AbstractContextManager[OpenTable]:
    """Connect to the database of a table, and check that its changes can be followed.

    Args:
        table: The table, and how its database is reached.

    Returns:
        A context manager with the table; the connections end with it.

    Raises:
        InputError: The database refuses the login or a permission, or the table does not fit;
            raised by the context manager, as all others.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or a connection was lost, in the body, too.
    """
    return open_postgres_table(table)


def server_of(table: CapturedTable) -> str:
    """Return ``host:port`` of a table's database, for messages; without user and password."""
    return postgres_server_of(table.options.dsn)
