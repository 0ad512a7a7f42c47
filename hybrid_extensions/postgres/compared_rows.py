"""Rows of a PostgreSQL table for comparisons, by COPY, in UTC; row security is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from hybrid_extensions.cdc.compared.database_rows import AWAY_HINT
from hybrid_extensions.comparison.duckdb_database import duckdb_type, exact_cast
from hybrid_extensions.libpq.connections import connect, is_away, server_of
from sources.common.optional import needs_extra
from sources.common.schema import parse_type
from sources.common.sql.sql_names import literal, quoted
from sources.errors import InputError, UnavailableError

with needs_extra("postgres", "Comparing with PostgreSQL"):
    import psycopg
    from psycopg import sql

# Without row security PostgreSQL refuses what it would answer with a part of the rows.
_SETTINGS = "-c timezone=UTC -c datestyle=ISO -c row_security=off"


def quote(name: str) -> str:
    """Return a name quoted for the database's SQL, in double quotes."""
    return quoted(name)


def bound_after(dsn: str, table: str, column: str, where: str, rows: int) -> str | None:
    """Return a column's value a number of rows further on, as text; None at the table's end.

    Implements :meth:`hybrid_extensions.cdc.compared.database_rows.DatabaseRows.bound_after`.

    Args:
        dsn: Connection string of the database.
        table: Name of the table, ``schema.table``.
        column: The column, by its name in the database.
        where: SQL condition of the rows that are counted, in ascending order of the column.
        rows: Number of rows to skip; 0 for the lowest value.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The database does not answer, or ends the connection.
    """
    query = sql.SQL(
        # Of the table: a column of the result may have the same name.
        "SELECT {0}::text FROM {1} AS t WHERE {2} ORDER BY t.{0} OFFSET {3} LIMIT 1"
    ).format(sql.Identifier(column), _named(table), sql.SQL(where), sql.Literal(rows))
    with _reading(dsn, table) as connection:
        row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def write_rows(
    dsn: str, table: str, columns: Mapping[str, str], file: Path, where: str = "true"
) -> str:
    """Write rows of a PostgreSQL table to a CSV file; nulls are empty, times are in UTC.

    Implements :meth:`hybrid_extensions.cdc.compared.database_rows.DatabaseRows.write_rows`.

    Args:
        dsn: Connection string of the database.
        table: Name of the table, ``schema.table``.
        columns: Columns to write and their Spark SQL types; binary values become hexadecimal,
            arrays JSON.
        file: Path of the CSV file to write; an existing one is replaced.
        where: SQL condition of the rows.

    Returns:
        DuckDB's query of these rows, as values of their types.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The database does not answer, or ends the connection.
    """
    parts = [
        sql.SQL(_written(parse_type(kind))).format(sql.Identifier(name))
        for name, kind in columns.items()
    ]
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT csv)").format(
        sql.SQL(", ").join(parts), _named(table), sql.SQL(where)
    )
    with (
        _reading(dsn, table) as connection,
        connection.cursor().copy(query) as copy,
        file.open("wb") as out,
    ):
        for data in copy:
            out.write(data)
    values = [f"{_parsed(quoted(n), parse_type(k))} AS {quoted(n)}" for n, k in columns.items()]
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return (
        f"SELECT {', '.join(values)} FROM read_csv({literal(str(file))}, "
        f"header=false, auto_detect=false, delim=',', quote='\"', escape='\"', nullstr='', "
        f"allow_quoted_nulls=false, max_line_size=67108864, columns={{{texts}}})"
    )


def _named(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split(".", 1))


@contextmanager
def _reading(dsn: str, table: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a database to read a table."""
    try:
        with connect(dsn, options=_SETTINGS) as connection:
            yield connection
    except psycopg.Error as error:
        text = " ".join(str(error).split()).rstrip(".")
        message = f"PostgreSQL table `{table}` can't be read: {text}."
        if is_away(error, dsn):
            raise UnavailableError(message, AWAY_HINT, table=table, server=server_of(dsn)) from None
        hint = (
            "Correct `snapshot.dsn` or the topic's `table`, set PGPASSWORD to the user's "
            "password, or grant SELECT on the table to the user."
        )
        raise InputError(message, hint, table=table, field="snapshot.dsn") from None


def _written(kind: pa.DataType) -> str:
    """Return SQL for a column in the CSV file; ``{}`` stands for its name."""
    if pa.types.is_list(kind):
        return "array_to_json({})"
    return "encode({}, 'hex')" if pa.types.is_binary(kind) else "{}"


def _parsed(name: str, kind: pa.DataType) -> str:
    """Return DuckDB's SQL that converts a column of the CSV file to its type."""
    if pa.types.is_list(kind):
        if not pa.types.is_binary(kind.value_type):
            return f"CAST({name}::JSON AS {duckdb_type(kind)})"
        # PostgreSQL writes bytes within JSON as hexadecimal digits after "\x".
        return f"list_transform(CAST({name}::JSON AS VARCHAR[]), lambda x: unhex(x[3:]))"
    return f"unhex({name})" if pa.types.is_binary(kind) else exact_cast(name, kind)
