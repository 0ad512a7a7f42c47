"""Tables of PostgreSQL as a pipeline declares them: columns, key, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.libpq.connections import connect, is_away, server_of
from sources.common.optional import needs_extra
from sources.errors import InputError, UnavailableError

with needs_extra("postgres", "A pipeline that captures tables of PostgreSQL"):
    import psycopg

_TIMEOUT_S = 10
# The type of a domain is the one that it is based on; an array's is its item's.
_COLUMNS = (
    "SELECT a.attname::text, a.attgenerated::text, "
    "coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text, "
    "CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE a.atttypmod END, t.typtype::text "
    "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_KEY = (
    "SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place), "
    "pg_attribute a WHERE i.indrelid = %s::regclass AND i.indisprimary "
    "AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place"
)
_NAMES = (
    "SELECT n.nspname::text, c.relname::text FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
    "AND left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2"
)
_TYPES = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "boolean": "boolean",
    "bytea": "binary",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamp",
    # Of these Debezium writes the text that PostgreSQL prints.
    **dict.fromkeys(
        ("text", "character varying", "character", "uuid", "json", "jsonb", "citext", "xml"),
        "string",
    ),
}
# Debezium's schema does not contain the unit of these within an array.
_NOT_IN_ARRAYS = ("timestamp without time zone",)


def connect_to(
    dsn: str, named: str = "snapshot.dsn", doing: str = "tables"
) -> psycopg.Connection[Any]:
    """Return an open connection with autocommit to a database whose tables are captured.

    It is waited for up to 10 s.

    Args:
        dsn: Connection string of the database.
        named: The field or option that has the connection string, for messages.
        doing: What the connection is for, in a word that PostgreSQL shows for it.

    Raises:
        UnavailableError: The server does not answer.
        InputError: The server refuses the login.
    """
    try:
        return connect(
            dsn, autocommit=True, connect_timeout=_TIMEOUT_S, application_name=f"hybrid {doing}"
        )
    except psycopg.Error as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        message = f"Connecting to the database {server_of(dsn)} failed: {reason}."
        if is_away(error, dsn):
            hint = f"Start the server, or correct host and port in `{named}`."
            raise UnavailableError(message, hint, server=server_of(dsn)) from None
        hint = (
            f"Correct database and user in `{named}`, or set the environment variable PGPASSWORD "
            "to the password."
        )
        raise InputError(message, hint, server=server_of(dsn)) from None


def raise_if_away(error: psycopg.Error, dsn: str, meanwhile: str) -> None:
    """Raise an error of an open connection as one of a server that went away, if it is that.

    Args:
        error: The error.
        dsn: Connection string of the database.
        meanwhile: What was done, such as ``while rows were read``.

    Raises:
        UnavailableError: The server ended the connection, or does not answer.
    """
    if is_away(error, dsn):
        reason = " ".join(str(error).split()).removesuffix(".")
        message = f"The database {server_of(dsn)} went away {meanwhile}: {reason}."
        hint = "Start the server if it is down, then try again."
        raise UnavailableError(message, hint, server=server_of(dsn)) from None


def find_tables(dsn: str, is_wanted: Callable[[str], bool]) -> list[DatabaseTable]:
    """Return the tables of a database with the columns and keys that a pipeline declares.

    In the order of :func:`list_tables`, which leaves some out.

    Args:
        dsn: Connection string of the database.
        is_wanted: Returns whether a table is wanted, by its name ``schema.table``.

    Raises:
        InputError: The database refuses the login or a query, or a table was dropped meanwhile.
        UnavailableError: The database does not answer.
    """
    with connect_to(dsn, "database.dsn") as connection:
        try:
            names = filter(is_wanted, list_tables(connection))
            return [describe_table(connection, name) for name in names]
        except psycopg.Error as error:
            raise_if_away(error, dsn, "while its tables were listed")
            reason = " ".join(str(error).split()).removesuffix(".")
            server = server_of(dsn)
            message = f"The database {server} does not list its tables: {reason}."
            hint = "Grant the user of `database.dsn` SELECT on the tables, and try again."
            raise InputError(message, hint, server=server) from None


def list_tables(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the names of all tables of a database, ``schema.table``, in order.

    Left out are its own catalog, views, partitions, and unlogged or temporary tables.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    found = connection.execute(_NAMES).fetchall()
    return [f"{schema}.{table}" for schema, table in found]


def describe_table(connection: psycopg.Connection[Any], table: str) -> DatabaseTable:
    """Return columns and key of a table, as a pipeline declares them.

    Columns that can't be captured are in ``left_out``, with the reason. The key is empty without a
    primary key.

    Args:
        connection: Open connection to the database.
        table: Name of the table, ``schema.table``.

    Raises:
        InputError: There is no such table, or the name has no schema.
        psycopg.Error: The server does not answer, or refuses.
    """
    schema, _, name = table.partition(".")
    kind = connection.execute(
        "SELECT c.relkind::text, c.oid::regclass::text FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        [schema, name],
    ).fetchone()
    if kind is None:
        message = f"There is no table `{table}` in the database."
        hint = "Name it with its schema, such as `public.orders`, and try again."
        if name:
            hint = "Correct its name (`schema.table`) or the address's database, and try again."
        raise InputError(message, hint, table=table)
    columns: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for column, generated, type_name, modifier, sort in connection.execute(_COLUMNS, [kind[1]]):
        found = _spark_type(type_name, modifier, sort)
        if generated:
            left_out[column] = "it is generated, and not in the log of changes"
        elif found is None:
            left_out[column] = f"type {type_name} has no common form in snapshot and changes"
        else:
            columns[column] = found
    key = [row[0] for row in connection.execute(_KEY, [kind[1]])]
    return DatabaseTable(table, columns, key, left_out, kind[0] == "p")


def _spark_type(name: str, modifier: int, sort: str) -> str | None:
    """Return the Spark SQL type in which snapshot and changes have the same values; or None."""
    if name.endswith("[]"):
        item = name.removesuffix("[]")
        found = None if item in _NOT_IN_ARRAYS else _spark_type(item, modifier, "b")
        return None if found is None else f"array<{found}>"
    if sort == "e":
        return "string"
    if name == "numeric":
        digits, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier < 4:
            # As text: any number of digits.
            return "string"
        return f"decimal({digits},{scale})" if scale <= digits <= 38 else "string"
    return _TYPES.get(name)
