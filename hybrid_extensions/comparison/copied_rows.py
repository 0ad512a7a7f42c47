"""Copied rows: those of a Delta table, in a table of DuckDB, which compares or counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from sources.errors import InputError
from sources.storage.tables.delta import expired_login_of, query_rows

if TYPE_CHECKING:
    import duckdb

KEY_TWICE = (
    "a map has a key twice: the runs have both entries, as Spark reads them, and DuckDB has no "
    "such map"
)
"""Why rows are not compared, a phrase."""
_ANSWERS = ("Map keys must be unique", "map contains duplicate key", KEY_TWICE)
_FOUND = "_found"


def has_key_twice(error: Exception) -> bool:
    """Return whether DuckDB failed because a map has the same key twice, which it does not allow.

    Args:
        error: DuckDB's error, or one that quotes its text.
    """
    return any(answer in str(error) for answer in _ANSWERS)


def copy_rows(
    connection: duckdb.DuckDBPyConnection,
    into: str,
    table: DeltaTable,
    query: str,
    selected: str = "*",
    *,
    without_maps: str = (
        "Let the transform return the entries of the map in its place, `map_entries({})`, and "
        "compute the table again in a new generation."
    ),
) -> None:
    """Create a DuckDB table from the result of an SQL query over a Delta table.

    The result is streamed. After an error the table is not there.

    Args:
        connection: The database.
        into: SQL name of the new table.
        table: The Delta table, which the query calls ``target``.
        query: The query, in the SQL of DataFusion.
        selected: What is copied of the result: a select list in DuckDB's SQL.
        without_maps: Hint of the error where a map has a key twice; ``{}`` stands for the names of
            the columns that have maps.

    Raises:
        InputError: A file of the Delta table is missing or can't be read, or it has a value that
            DuckDB can't hold.
        UnavailableError: The login to the store has expired.
    """
    names = "m"
    try:
        rows = query_rows(table, query)
        names = ", ".join(each.name for each in rows.schema if "map<" in str(each.type)) or names
        connection.register(_FOUND, rows)
        connection.execute(f"CREATE TABLE {into} AS SELECT {selected} FROM {_FOUND}")
        connection.unregister(_FOUND)
    except Exception as error:  # delta-rs raises plain exceptions for missing files
        if (expired := expired_login_of(table.table_uri, error)) is not None:
            raise expired from None
        path = table.table_uri.removeprefix("file://").rstrip("/")
        why = KEY_TWICE if has_key_twice(error) else str(error).strip().rstrip(".")
        message = f"The rows of table {path} can't be read: {why}."
        if why == KEY_TWICE:
            hint = without_maps.format(names)
            raise InputError(message, hint, table=path, column=names) from None
        hint = (
            "Restore the table's data files from a backup, then try again."
            if "not found" in why
            else "Check that the table's store answers, and that its login may read; then try "
            "again. A damaged file has to be restored from a backup."
        )
        raise InputError(message, hint, table=path) from error
