"""The audit's DuckDB database, and names and values as its SQL takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from sources.common.schema import parse_type, type_name

INSTANT = "TIMESTAMP WITH TIME ZONE"
# How DuckDB spells Spark's types, where the two do not share the name.
_TYPES = {"binary": "BLOB", "string": "VARCHAR", "timestamp": INSTANT}


def open_database(folder: Path, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """A new database in a folder, so that large tables lie on disk; its session is in UTC.

    The schema ``audit`` is for tables that the user's SQL should not meet.

    Args:
        folder: Exists, and is empty.
        memory_limit: What DuckDB may take before it spills, such as ``2GB``.
    """
    connection = duckdb.connect(str(folder / "scratch.duckdb"))
    connection.execute(f"SET temp_directory = {literal(str(folder / 'spilled'))}")
    connection.execute(f"SET memory_limit = {literal(memory_limit)}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE SCHEMA audit")
    return connection


def quoted(name: str) -> str:
    """The name of a column or table, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Names with commas between."""
    return ", ".join(map(quoted, names))


def literal(text: str) -> str:
    """A string."""
    return "'" + text.replace("'", "''") + "'"


def structure(types: Mapping[str, str]) -> str:
    """Columns and DuckDB types as ``from_json`` takes them."""
    return literal(json.dumps(types))


def duckdb_types(declared: Mapping[str, str]) -> dict[str, str]:
    """The DuckDB types of declared columns; instants have a time zone, as Spark's have."""
    return {name: duckdb_type(parse_type(kind)) for name, kind in declared.items()}


def duckdb_type(kind: pa.DataType) -> str:
    """The DuckDB type of a column."""
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(p.name)} {duckdb_type(p.type)}' for p in kind)})"
    name = type_name(kind)
    return _TYPES.get(name, name.upper())


def columns_of(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """Names and DuckDB types of the columns of a query, or of a table by its quoted name."""
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {query}").fetchall()}


def count_rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Number of rows of a table or view, by its quoted name."""
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def insert_arrow(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table | pa.RecordBatchReader
) -> None:
    """Append Arrow data to a table that has the same columns in the same order."""
    connection.register("_arrow", rows)
    connection.execute(f"INSERT INTO {table} SELECT * FROM _arrow")
    connection.unregister("_arrow")
