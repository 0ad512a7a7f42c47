"""Both sides of a comparison with a database in DuckDB: casts, renamed columns, rows of one.

The database's own tool writes its rows to a file, delta-rs reads the target, and DuckDB has both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.cdc.compared.database_rows import DatabaseRows
from hybrid_extensions.cdc.compared.key_range import KeyRange
from hybrid_extensions.cdc.databases.kinds import part_for
from hybrid_extensions.cdc.debezium.mysql_json import canonical_json
from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import (
    MEMORY_LIMIT,
    duckdb_type,
    error_text,
    open_database,
)
from hybrid_extensions.comparison.maps import sort_maps
from sources.common.schema import parse_type
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import InputError
from sources.storage.tables.delta import delta_table, is_delta_table


@contextmanager
def compared_sides(
    asked: ComparedTable, where: KeyRange | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """Read a database table and a target into DuckDB, and find the rows that only one has.

    Args:
        asked: Both; only columns that the Delta table has are compared.
        where: Range of the key in which both are compared; all rows by default.

    Yields:
        The database with the tables ``source``, ``target``, ``only_source`` and ``only_target``,
        and the names of the columns in them.

    Raises:
        InputError: The target does not exist, one of the tables can't be read, a value of the
            database does not fit its column, or DuckDB needs more memory or temporary space than
            there is, also in the body.
        UnavailableError: The database does not answer, or ends the connection.
    """
    try:
        with _sides(asked, where) as sides:
            yield sides
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        message = f"The rows of `{asked.table}` can't be compared: {error_text(error)}"
        hint = (
            f"A comparison takes {MEMORY_LIMIT} of memory, and what is more is in the folder for "
            "temporary files, `TMPDIR`: free space there, then compare again. If rows have values "
            "of many kilobytes, leave their column out: `ignored_columns`."
        )
        raise InputError(message, hint, table=asked.table) from None
    except (duckdb.DataError, duckdb.InvalidInputException) as error:
        # Behind its first line may be the row itself.
        text = str(error).splitlines()[0].rstrip(".")
        message = f"A row of `{asked.table}` in the database can't be read: {text}."
        hint = (
            "If a column was widened in the database, declare its new type in `widened_columns` "
            "and run `hybrid resume P`. If rows have 64 MB or more, leave their long column out: "
            "`ignored_columns`. Otherwise correct the row. Then compare again: `hybrid compare P`."
        )
        raise InputError(message, hint, table=asked.table) from None


@contextmanager
def _sides(
    asked: ComparedTable, where: KeyRange | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """Yield both sides as :func:`compared_sides`, with DuckDB's own errors."""
    dsn, table, columns, path, names, present, _ = asked
    reader = rows_of(dsn)
    if not is_delta_table(path):
        message = f"There is no Delta table {path} to compare with `{table}`."
        hint = "Compute the table first, with `hybrid run P`, or correct `sink.path`."
        raise InputError(message, hint, table=path.url)
    target = delta_table(path)
    target_columns = {field.name for field in target.schema().fields}
    compared = {name: kind for name, kind in columns.items() if name in target_columns}
    with (
        TemporaryDirectory(prefix="hybrid-compare-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        connection.create_function("canonical_json", canonical_json, ["VARCHAR"], "VARCHAR")
        there = {name: names.get(name, name) for name in compared}
        read = {there[name]: kind for name, kind in compared.items()}
        known = "true" if where is None else where.sql(reader.quote(there[where.column]))
        rows = reader.write_rows(dsn, table, read, Path(scratch) / "source.csv", known)
        renamed = ", ".join(f"{quoted(old)} AS {quoted(new)}" for new, old in there.items())
        connection.execute(f"CREATE TABLE source AS SELECT {renamed} FROM ({rows})")
        if where is not None:
            present = f"({present}) AND {where.sql(quoted(where.column))}"
        _create_target(connection, compared, target, present)
        for side in ("source", "target"):
            sort_maps(connection, side)
        for one, other in (("source", "target"), ("target", "source")):
            connection.execute(
                f"CREATE TABLE only_{one} AS SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}"
            )
        yield connection, list(compared)


def rows_of(dsn: str) -> DatabaseRows:
    """Return the reader of rows for the kind of database that a connection string names.

    Raises:
        InputError: No installed extension supports this kind of database.
    """
    rows: DatabaseRows = part_for(dsn, "compared_rows")
    return rows


def _create_target(
    connection: duckdb.DuckDBPyConnection,
    columns: Mapping[str, str],
    target: DeltaTable,
    present: str,
) -> None:
    """Create the DuckDB table ``target`` with the columns and types of the source.

    A column whose values that type would round keeps its own type.
    """
    types = {name: parse_type(kind) for name, kind in columns.items()}
    stored = pa.schema(target.schema().to_arrow())
    query = f"SELECT {column_list(columns)} FROM target WHERE {present}"
    casts = [
        quoted(name)
        if _is_rounded(stored.field(name).type, kind)
        else f"CAST({quoted(name)} AS {duckdb_type(kind)}) AS {quoted(name)}"
        for name, kind in types.items()
    ]
    copy_rows(connection, "target", target, query, ", ".join(casts))


def _is_rounded(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a value of the target loses digits or a time of day by a cast to a type."""
    if pa.types.is_timestamp(stored):
        return bool(pa.types.is_date(kind))
    is_exact = stored.equals(kind) or pa.types.is_string(kind)
    return not is_exact and bool(pa.types.is_floating(stored) or pa.types.is_decimal(stored))
