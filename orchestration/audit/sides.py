"""The two sides of an audit: the rows that the target must hold, and those that it holds."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from orchestration.audit.sql import columns_of, listed
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.generations import target_of

FLOATING = frozenset({"FLOAT", "DOUBLE"})
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_NUMBERS = {*FLOATING, *_INTEGERS, *(f"U{kind}" for kind in _INTEGERS), "DECIMAL"}


def create_sides(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, query: str | None
) -> list[str]:
    """Make the tables ``audit.expected`` and ``audit.found``, with the same columns.

    Args:
        connection: Holds the views of the input.
        loaded: The pipeline.
        query: A DuckDB query for the rows of the target; None if it must hold ``input``, in the
            columns that both have.

    Returns:
        What to know about the comparison, in words.

    Raises:
        InputError: The query is wrong, the target can't be read, or their columns do not fit.
    """
    key = loaded.pipeline.sink.key
    path = target_of(loaded)
    target = open_target(path)
    columns = [field.name for field in target.schema().fields] if target else []
    notes = []
    if query is None:
        shared = _shared_columns(connection, columns or None, key)
        if omitted := [name for name in columns if name not in shared]:
            notes.append(f"Not compared, for want of `audit.sql`: {', '.join(omitted)}.")
        query, columns = f"SELECT {listed(shared)} FROM input", shared
    _create_expected(connection, query)
    if target is None:
        notes.append(f"There is no Delta table {path}: it counts as one without rows.")
        connection.execute("CREATE TABLE audit.found AS SELECT * FROM audit.expected LIMIT 0")
    else:
        create_rows(connection, "found", target, columns)
    _check_columns(connection, key)
    return notes


def _shared_columns(
    connection: duckdb.DuckDBPyConnection, target: list[str] | None, key: list[str]
) -> list[str]:
    """The columns of ``input`` that the target has too; all of them if there is no target."""
    shared = [name for name in columns_of(connection, "input") if target is None or name in target]
    absent = [name for name in key if name not in shared]
    if absent:
        message = f"Column {', '.join(absent)} of `sink.key` is not in both input and target."
        hint = "Declare `audit: {sql: …}`: a DuckDB query that computes the target from `input`."
        raise InputError(message, hint)
    return shared


def _create_expected(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    try:
        statements = connection.extract_statements(query)
        if len(statements) == 1:
            connection.execute(f"CREATE TABLE audit.expected AS {statements[0].query}")
            return
    except duckdb.Error as error:
        message = f"`audit.sql` fails: {error}\n"
        hint = f"Correct it; it can read {', '.join(_views(connection))}."
        raise InputError(message, hint) from None
    message = f"`audit.sql` holds {len(statements)} statements."
    raise InputError(message, "It must be one SELECT.")


def _views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    query = (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"
    )
    return [f"`{row[0]}`" for row in connection.execute(query).fetchall()]


def open_target(path: str) -> DeltaTable | None:
    """A Delta table; None if there is none.

    Raises:
        InputError: It can't be read.
    """
    try:
        return DeltaTable(path) if DeltaTable.is_deltatable(path) else None
    except (DeltaError, OSError) as error:
        message = f"The target {path} can't be read: {error}"
        raise InputError(message, "Repair its `_delta_log`.") from None


def create_rows(
    connection: duckdb.DuckDBPyConnection, name: str, target: DeltaTable, columns: list[str]
) -> None:
    """Make the table ``audit.<name>`` of the rows that a Delta table holds.

    Raises:
        InputError: They can't be read.
    """
    try:
        # delta-rs's Arrow dataset refuses deletion vectors, and reads mapped columns as nulls.
        query = f"SELECT {listed(columns)} FROM target"
        stream = QueryBuilder().register("target", target).execute(query)
        connection.register("_target", pa.RecordBatchReader.from_stream(stream))
        connection.execute(f"CREATE TABLE audit.{name} AS SELECT * FROM _target")
        connection.unregister("_target")
    except Exception as error:  # delta-rs raises plain ones for files that are gone
        path = target.table_uri.removeprefix("file://").rstrip("/")
        message = f"The table {path} can't be read: {error}"
        raise InputError(message, "Restore its files.") from error


def _check_columns(connection: duckdb.DuckDBPyConnection, key: list[str]) -> None:
    """Refuse columns that one side lacks, or that can't hold the same values."""
    computed = columns_of(connection, "audit.expected")
    held = columns_of(connection, "audit.found")
    only = {
        "only in `audit.sql`": [name for name in computed if name not in held],
        "only in the target": [name for name in held if name not in computed],
    }
    if parts := [f"{where}: {', '.join(names)}" for where, names in only.items() if names]:
        message = f"`audit.sql` and the target differ in their columns; {'; '.join(parts)}."
        raise InputError(message, "The query must return exactly the target's columns.")
    if absent := [name for name in key if name not in computed]:
        message = f"Column {', '.join(absent)} of `sink.key` is not in the target."
        raise InputError(message, f"It has {', '.join(computed)}.")
    for name, kind in computed.items():
        if _family(kind) != _family(held[name]):
            message = f"Column `{name}` is {kind} in `audit.sql` and {held[name]} in the target."
            raise InputError(message, "Cast it in the query.")


def _family(kind: str) -> str:
    """What a DuckDB type can be compared with."""
    if kind.endswith("]"):
        return "list"
    head = re.split("[( ]", kind, maxsplit=1)[0]
    if head in _NUMBERS:
        return "number"
    return "timestamp" if head.startswith("TIMESTAMP") else head
