"""Rows of a Delta table copied into DuckDB: errors of files, memory, and maps with a key twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

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


def place_of(table: DeltaTable) -> str:
    """Return the folder of a Delta table for messages: its path, or its URL in a store.

    Without a slash at its end; percent escapes of a path are decoded.
    """
    uri = table.table_uri.rstrip("/")
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri


def has_key_twice(error: Exception) -> bool:
    """Return whether DuckDB failed because a map has the same key twice, which it does not allow.

    Args:
        error: DuckDB's error, or one that quotes its text.
    """
    return any(answer in str(error) for answer in _ANSWERS)


def _as_entries(maps: Sequence[str]) -> str:
    entries = " and ".join(f"`map_entries({name})`" for name in maps)
    place = "the map in its place" if len(maps) == 1 else "each map in its place"
    return (
        f"Let the transform return the entries of {place}, {entries}, and compute the table again "
        "in a new generation."
    )


def copy_rows(
    connection: duckdb.DuckDBPyConnection,
    into: str,
    table: DeltaTable,
    query: str,
    selected: str = "*",
    *,
    without_maps: Callable[[Sequence[str]], str] = _as_entries,
) -> None:
    """Create a DuckDB table from the result of an SQL query over a Delta table.

    The result is streamed. After an error the table is not there.

    Args:
        connection: The database.
        into: SQL name of the new table.
        table: The Delta table, which the query calls ``target``.
        query: The query, in the SQL of DataFusion.
        selected: What is copied of the result: a select list in DuckDB's SQL.
        without_maps: Returns the hint of the error where a map has a key twice, for the names of
            the columns that have maps.

    Raises:
        InputError: A file of the Delta table is missing or can't be read, or it has a value that
            DuckDB can't hold; or DuckDB lacks memory or temporary space.
        UnavailableError: The login to the store has expired.
    """
    maps: list[str] = []
    try:
        rows = query_rows(table, query)
        maps = [each.name for each in rows.schema if "map<" in str(each.type)]
        connection.register(_FOUND, rows)
        connection.execute(f"CREATE TABLE {into} AS SELECT {selected} FROM {_FOUND}")
        connection.unregister(_FOUND)
    except Exception as error:  # delta-rs raises plain exceptions for missing files
        if (expired := expired_login_of(table.table_uri, error)) is not None:
            raise expired from None
        path = place_of(table)
        why = KEY_TWICE if has_key_twice(error) else str(error).strip().rstrip(".")
        message = f"The rows of table {path} can't be read: {why}."
        if why == KEY_TWICE:
            hint = without_maps(maps)
            raise InputError(message, hint, table=path, column=", ".join(maps)) from None
        if "Out of Memory" in why or "No space left" in why:
            hint = "Free memory, and space for temporary files (`TMPDIR`); then try again."
        elif "not found" in why:
            hint = "Restore the table's data files from a backup, then try again."
        else:
            hint = (
                "Check that the table's store answers, and that its login may read; then try "
                "again. A damaged file has to be restored from a backup."
            )
        raise InputError(message, hint, table=path) from error
