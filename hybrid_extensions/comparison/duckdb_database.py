"""DuckDB database of comparisons: 2 GB of memory, UTC, Spark's types, exact casts, rows counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from sources.common.schema import TIMESTAMP, parse_type, type_name
from sources.common.sql.engine import SETTINGS
from sources.common.sql.sql_names import literal, quoted

MEMORY_LIMIT = "2GB"
"""What a comparison takes: the live run may share the machine. Beyond it, DuckDB spills to disk."""
INSTANT = "TIMESTAMP WITH TIME ZONE"
FLOATING = frozenset({"FLOAT", "DOUBLE"})
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
INTEGERS = frozenset({*_SIGNED, *(f"U{kind}" for kind in _SIGNED)})
# DuckDB's names of Spark's types, where they differ.
_TYPES = {"binary": "BLOB", "string": "VARCHAR", "timestamp": INSTANT}


def open_database(folder: Path, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """Create a DuckDB database in a folder and connect to it; the session's time zone is UTC.

    Its tables are on disk, and its queries spill to disk. The schema ``audit`` is for tables that
    the user's SQL must not see; everything else is in ``main``.

    Args:
        folder: An empty folder.
        memory_limit: Memory that DuckDB may use before it writes to disk, such as ``2GB``.
    """
    connection = duckdb.connect(str(folder / "scratch.duckdb"))
    connection.execute(f"SET temp_directory = {literal(str(folder / 'spilled'))}")
    connection.execute(f"SET memory_limit = {literal(memory_limit)}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("; ".join(SETTINGS))
    connection.execute("CREATE SCHEMA audit")
    return connection


def error_text(error: Exception) -> str:
    """Return a library's error as the end of a sentence, with a full stop.

    DuckDB draws some of its errors over several lines: those get a line break instead of a full
    stop, so that whatever follows begins a new line.
    """
    text = str(error).strip()
    return f"{text}\n" if "\n" in text else f"{text.rstrip('.')}."


def struct(types: Mapping[str, str]) -> str:
    """Return a DuckDB struct literal that maps column names to type names."""
    return f"{{{', '.join(f'{literal(name)}: {literal(kind)}' for name, kind in types.items())}}}"


def json_structure(types: Mapping[str, str]) -> str:
    """Return columns and their DuckDB types as the structure argument of ``from_json``."""
    return literal(json.dumps(types))


def duckdb_types(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the DuckDB types of columns that are declared with Spark SQL types, both by name.

    Raises:
        InputError: A text is no Spark SQL type.
    """
    return {name: duckdb_type(parse_type(kind)) for name, kind in declared.items()}


def duckdb_type(kind: pa.DataType) -> str:
    """Return the DuckDB type of an Arrow type; timestamps have a time zone, as in Spark.

    Raises KeyError for a type that Spark does not have.
    """
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(p.name)} {duckdb_type(p.type)}' for p in kind)})"
    name = type_name(kind)
    return _TYPES.get(name, name.upper())


def exact_cast(name: str, kind: pa.DataType) -> str:
    """Return DuckDB's SQL that converts a text to a type.

    Where a number would be rounded, as CAST does it, the query fails with
    ``duckdb.InvalidInputException``.

    Args:
        name: SQL of the text, such as a quoted name.
        kind: The type.
    """
    cast = f"CAST({name} AS {duckdb_type(kind)})"
    if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return cast
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    rounds = f"length(rtrim(split_part({name}, '.', 2), '0')) > {scale}"
    told = literal(f"a value of {name} has more digits than {duckdb_type(kind)}")
    return f"CASE WHEN {rounds} THEN error({told}) ELSE {cast} END"


def columns_of(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """Return the DuckDB types of the columns of a query or of a table (quoted name), by name.

    In their order. Raises ``duckdb.Error`` if the query is not valid.
    """
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {query}").fetchall()}


def schema_of(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Schema:
    """Return the columns of a DuckDB query as an Arrow schema, without running it over rows.

    Timestamps with a zone have microseconds and UTC, as Spark's.

    Raises:
        duckdb.Error: The query is not valid, or names a table or column that there is not.
    """
    found = connection.sql(f"SELECT * FROM ({query}) LIMIT 0").to_arrow_table().schema
    return pa.schema(
        [
            pa.field(
                field.name,
                TIMESTAMP
                if pa.types.is_timestamp(field.type) and field.type.tz is not None
                else field.type,
            )
            for field in found
        ]
    )


def as_json(columns: Iterable[str]) -> str:
    """Return SQL for a row's columns as the text of a JSON object, in their order.

    At least one column is needed.
    """
    members = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in columns)
    return f"to_json(struct_pack({members}))::VARCHAR"


def count_rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Return the number of rows of a table, given by its quoted name or a FROM clause.

    The statement runs at once; raises ``duckdb.Error`` if it fails.
    """
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def create_empty_table(
    connection: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema
) -> None:
    """Create a table without rows that has the columns of an Arrow schema.

    Args:
        connection: The audit's database.
        table: Quoted name of the new table.
        schema: Its columns.
    """
    connection.register("_columns", schema.empty_table())
    connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _columns")
    connection.unregister("_columns")


def insert_arrow(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table | pa.RecordBatchReader
) -> None:
    """Append Arrow data to a table (given by its quoted name) with the same columns, in order.

    They are matched by place, not by name.
    """
    connection.register("_arrow", rows)
    connection.execute(f"INSERT INTO {table} SELECT * FROM _arrow")
    connection.unregister("_arrow")
