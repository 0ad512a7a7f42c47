"""Compared rows of a repair in DuckDB: those of a database snapshot, and the target with deletes.

The rows of the database come from the code that takes snapshots, so that a repaired row is what a
snapshot would have written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from hybrid_extensions.cdc.compared.key_range import KEYS, RANGE_ROWS, KeyRange
from hybrid_extensions.cdc.databases.captured_table import (
    CapturedTable,
    Division,
    Misfit,
    OpenTable,
    QueryError,
)
from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import (
    create_empty_table,
    duckdb_type,
    insert_arrow,
)
from hybrid_extensions.comparison.maps import sort_maps
from hybrid_extensions.repair.repairable_table import RepairedTable
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.schema import parse_schema, parse_type
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.tables.delta import delta_table, is_delta_table

SOURCE, TARGET, DELETES, ENVELOPE = "source", "target", "audit.deletes", "audit.envelope"
"""DuckDB tables: rows of the database; of the target; kept deletes; the parts of an envelope."""


class SourceRange(NamedTuple):
    """Rows of a range of the key, as they are in the database.

    Attributes:
        within: The range; None if it is the whole table.
        file: Parquet file of the rows.
    """

    within: KeyRange | None
    file: Path


def range_condition(within: KeyRange | None) -> str:
    """Return the SQL condition of the rows of the target, deletes and keys in a range.

    ``true`` for None. The first range also has the rows whose column of the range is null.
    """
    if within is None:
        return "true"
    name = quoted(within.column)
    # No row of the database lacks it, but one of the target may.
    lacks = f" OR {name} IS NULL" if within.first is None else ""
    return f"({within.sql(name)}{lacks})"


def read_source(
    connection: duckdb.DuckDBPyConnection,
    table: RepairedTable,
    folder: Path,
    is_wanted: Callable[[KeyRange], bool] = lambda _: True,
) -> tuple[DatabaseSnapshot, list[SourceRange]]:
    """Read the rows of a database table under one snapshot into files, by ranges of the key.

    :data:`ENVELOPE` gets one row: the values of a snapshot's rows in the columns of a change's
    envelope (its metadata, such as the operation).

    Args:
        connection: DuckDB, without :data:`ENVELOPE`.
        table: The table.
        folder: Folder for the files.
        is_wanted: Returns whether a range is read.

    Returns:
        Which changes the rows contain; and the ranges, one of which is in memory at a time.

    Raises:
        InputError: The database refuses, the table does not fit, or a value does not fit its
            column.
        UnavailableError: The database does not answer.
    """
    options = table.captured.options.model_copy(update={"chunk_rows": RANGE_ROWS})
    captured, found = replace(table.captured, options=options), list[SourceRange]()
    schema = parse_schema(captured.columns)
    try:
        with access_to(options.dsn).open_table(captured) as opened:
            reader = opened.readers(1)[0]
            division, ranges = _ranges(table, opened)
            for number, within in enumerate(ranges):
                if within is not None and not is_wanted(within):
                    continue
                file = folder / f"source-{number}.parquet"
                with pq.ParquetWriter(file, schema) as writer:
                    for batch in reader.rows(division, number):
                        writer.write_batch(batch)
                found.append(SourceRange(within, file))
            snapshot = reader.snapshot
    except (QueryError, Misfit) as error:
        raise _unread(captured, error) from None
    values, declared = snapshot.envelope(), table.topic.declared_columns or {}
    arrays = {
        name: pa.array([values.get(part)], parse_type(declared[name]))
        for name, part in table.parts.items()
    }
    connection.register("_envelope", pa.table(arrays))
    connection.execute(f"CREATE TABLE {ENVELOPE} AS SELECT * FROM _envelope")
    connection.unregister("_envelope")
    return snapshot, found


def _ranges(table: RepairedTable, opened: OpenTable) -> tuple[Division, Sequence[KeyRange | None]]:
    """Return how a table is divided, and the ranges; one if its key has no common order."""
    division = opened.divide()
    name = None if division.key is None else table.names.get(division.key[0])
    kind = "" if name is None else table.columns[name].partition("(")[0]
    if name is None or (parse := KEYS.get(kind)) is None:
        return Division(None, []), [None]
    try:
        # Such as `infinity`, which is no date of the target.
        for bound in division.bounds:
            parse(bound)
    except (ArithmeticError, ValueError):
        return Division(None, []), [None]
    count = len(division.bounds) + 1
    return division, [KeyRange(name, kind, *division.ends(chunk)) for chunk in range(count)]


def load_source(connection: duckdb.DuckDBPyConnection, table: RepairedTable, file: Path) -> None:
    """Load the rows of a range into :data:`SOURCE`, in place of what it has; delete the file.

    Args:
        connection: DuckDB.
        table: The table.
        file: Parquet file of the rows, from :func:`read_source`.
    """
    create_empty_table(connection, "audit.read", parse_schema(table.captured.columns))
    with pq.ParquetFile(file) as rows:
        for batch in rows.iter_batches():
            insert_arrow(connection, "audit.read", pa.Table.from_batches([batch]))
    renamed = ", ".join(f"{quoted(old)} AS {quoted(new)}" for old, new in table.names.items())
    connection.execute(f"CREATE OR REPLACE TABLE {SOURCE} AS SELECT {renamed} FROM audit.read")
    connection.execute("DROP TABLE audit.read")
    sort_maps(connection, SOURCE)
    file.unlink()


def read_positions(
    connection: duckdb.DuckDBPyConnection, table: RepairedTable, opened: DeltaTable
) -> str:
    """Return an SQL query of positions of the target and its deletes, as the column ``p``.

    Of the target it has the last position of each transaction, which are read now.

    Args:
        connection: DuckDB, after :func:`read_deletes`.
        table: The table.
        opened: The version of the target.

    Raises:
        InputError: A file of the target is missing or can't be read.
        UnavailableError: The login to the store has expired.
    """
    column = quoted(table.position)
    last = f"SELECT max({column}) AS p FROM target GROUP BY substr({column}, 1, 16)"
    copy_rows(connection, "audit.positions", opened, last)
    return f"SELECT p FROM audit.positions UNION ALL SELECT {column} FROM {DELETES}"


def read_target(
    connection: duckdb.DuckDBPyConnection,
    table: RepairedTable,
    opened: DeltaTable,
    condition: str = "true",
) -> None:
    """Read rows of a version of the target into :data:`TARGET`, in place of what it has.

    Args:
        connection: DuckDB.
        table: The table.
        opened: The version. Deletes are read after it was opened: a row that is deleted in between
            is in it, and its delete is known.
        condition: SQL condition of the rows.

    Raises:
        InputError: A file is missing or can't be read.
        UnavailableError: The login to the store has expired.
    """
    kinds = {name: duckdb_type(parse_type(kind)) for name, kind in table.columns.items()}
    names = [field.name for field in opened.schema().fields]
    casts = [
        f"CAST({quoted(name)} AS {kinds[name]}) AS {quoted(name)}"
        if name in kinds
        else quoted(name)
        for name in names
    ]
    connection.execute(f"DROP TABLE IF EXISTS {TARGET}")
    query = f"SELECT {column_list(names)} FROM target WHERE {condition}"
    copy_rows(connection, TARGET, opened, query, ", ".join(casts))
    sort_maps(connection, TARGET)


def read_deletes(connection: duckdb.DuckDBPyConnection, table: RepairedTable) -> None:
    """Read the kept deletes of the target into :data:`DELETES`, replacing that table.

    It has the key and the log position of each; it is empty if rows are only marked as deleted.

    Args:
        connection: DuckDB, with :data:`TARGET`.
        table: The table.

    Raises:
        InputError: A file of the table of deletes is missing or can't be read.
        UnavailableError: The login to the store has expired.
    """
    columns = column_list([*table.key, table.position])
    connection.execute(f"DROP TABLE IF EXISTS {DELETES}")
    if (folder := table.deletes) is not None and is_delta_table(folder):
        query = f"SELECT {columns} FROM target"
        copy_rows(connection, DELETES, delta_table(folder), query)
        return
    query = f"SELECT {columns} FROM target LIMIT 0"
    copy_rows(connection, DELETES, delta_table(table.target), query)


def log_end(table: RepairedTable) -> DatabaseSnapshot:
    """Return a new snapshot of the database, for its log position alone; no rows are read.

    Raises:
        InputError: The database refuses.
        UnavailableError: The database does not answer.
    """
    captured = table.captured
    # One session is enough.
    single = captured.options.model_copy(update={"workers": 1})
    try:
        with access_to(single.dsn).export(replace(captured, options=single)) as exported:
            return exported.snapshot
    except QueryError as error:
        raise _unread(captured, error) from None


def _unread(captured: CapturedTable, error: Exception) -> HybridError:
    text = " ".join(str(error).split()).rstrip(".")
    message = f"The rows of `{captured.name}` can't be read: {text}. Nothing was repaired."
    if isinstance(error, QueryError) and error.is_connection_lost:
        hint = "Check that the database server runs, then repair again."
        return UnavailableError(message, hint, table=captured.name)
    hint = (
        f"Grant the user of `snapshot.dsn` SELECT on `{captured.name}`, or correct the `schema` or "
        "the rows in the database; then repair again."
    )
    return InputError(message, hint, table=captured.name)
