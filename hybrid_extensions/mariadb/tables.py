"""Tables of MariaDB or MySQL as a pipeline declares them: columns, key, and what is left out."""

from __future__ import annotations

from collections.abc import Callable

from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.mariadb.server import ask, connect, is_lost, parse_address, text_of
from hybrid_extensions.mariadb.snapshot.capture_checks import column_of
from hybrid_extensions.mariadb.snapshot.columns import Column, declared_type
from hybrid_extensions.mariadb.snapshot.keys import key_of
from sources.common.optional import needs_extra
from sources.errors import InputError, UnavailableError

with needs_extra("mariadb", "A pipeline that captures tables of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.constants import ER
    from pymysql.cursors import Cursor

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
# Kinds that can't be captured are listed, too, so that they are refused by name.
_NAMES = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN "
    f"('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN {_SYSTEM} "
    "AND table_schema NOT LIKE %s ORDER BY 1, 2"
)
_COLUMNS = (
    "SELECT column_name, data_type, column_type, is_nullable, column_default, collation_name, "
    "extra REGEXP '(VIRTUAL|STORED|PERSISTENT) GENERATED' FROM information_schema.columns "
    "WHERE table_schema = BINARY %s AND table_name = BINARY %s ORDER BY ordinal_position"
)


def find_tables(dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
    """Return the tables of a server with the columns and keys that a pipeline declares.

    Ordered by database and name, without views and the server's own. Those of a database whose name
    has a dot can't be named, and are left out.

    Args:
        dsn: How the database is reached, as ``snapshot.dsn``.
        is_wanted: Returns whether a table is wanted, by its name ``database.table``.

    Raises:
        InputError: The server refuses the login, or a query.
        UnavailableError: The server does not answer.
    """
    address = parse_address(dsn)
    with connect(address, "database") as connection:
        try:
            # In `a.b.c` the database is `a`.
            names = [f"{schema}.{table}" for schema, table in ask(connection, _NAMES, "%.%")]
            wanted = filter(is_wanted, names)
            found = (_described(connection, name) for name in wanted)
            return [each for each in found if each is not None]
        except MySQLError as error:
            message = f"The database {address.server} does not list its tables: {text_of(error)}."
            if is_lost(error):
                hint = "Start the server if it is down, then try again."
                raise UnavailableError(message, hint, server=address.server) from None
            hint = "Grant the user of the address (`dsn`) SELECT on the tables, and try again."
            raise InputError(message, hint, server=address.server) from None


def _described(connection: Connection[Cursor], table: str) -> DatabaseTable | None:
    """Return columns and key of a table; None if it was dropped meanwhile."""
    try:
        return describe_table(connection, table)
    except MySQLError as error:
        if error.args[0] in (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR):
            return None
        raise


def describe_columns(connection: Connection[Cursor], table: str) -> dict[str, Column]:
    """Return the columns of a table by name, including generated ones; empty without a table.

    Args:
        connection: Open connection to the server.
        table: The table, ``database.table``.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    return {column.name: column for column, _ in _columns_of(connection, table)}


def _columns_of(connection: Connection[Cursor], table: str) -> list[tuple[Column, bool]]:
    """Return the columns of a table in order, and whether each is generated."""
    schema, _, name = table.partition(".")
    rows = ask(connection, _COLUMNS, schema, name)
    return [(column_of(described), bool(is_generated)) for *described, is_generated in rows]


def describe_table(connection: Connection[Cursor], table: str) -> DatabaseTable:
    """Return columns and key of a table, as a pipeline declares them.

    Columns that can't be captured are in ``left_out``, with the reason. The key is empty if nothing
    identifies a row.

    Args:
        connection: Open connection to the server.
        table: The table, ``database.table``.

    Raises:
        pymysql.MySQLError: There is no such table, the server refuses, or the connection ended.
    """
    columns: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for column, is_generated in _columns_of(connection, table):
        found = declared_type(column)
        if is_generated:
            left_out[column.name] = "it is generated: compute it in the transform"
        elif found is None:
            left_out[column.name] = (
                f"type {column.full} has no common form in snapshot and changes: list it in the "
                "connector's `column.exclude.list`"
            )
        else:
            columns[column.name] = found
    return DatabaseTable(table, columns, key_of(connection, table), left_out)
