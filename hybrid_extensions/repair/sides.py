"""Both sides of a repair in DuckDB: rows of a database snapshot, and the target with its deletes.

The rows of the database come from the code that takes snapshots, so that a repaired row is what a
snapshot would have written.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from hybrid_extensions.repair.table import RepairedTable
from orchestration.audit.computed.maps import sort_maps
from orchestration.audit.sql import create_empty_table, duckdb_type, insert_arrow
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.schema import parse_schema, parse_type
from sources.common.sql.sql_names import column_list, quoted
from sources.databases.captured_table import CapturedTable, Division, Misfit, QueryError
from sources.databases.kinds import access_to
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.tables.copied_rows import copy_rows
from sources.storage.tables.delta import delta_table, is_delta_table

SOURCE, TARGET, DELETES, ENVELOPE = "source", "target", "audit.deletes", "audit.envelope"
"""DuckDB tables: rows of the database; of the target; kept deletes; the parts of an envelope."""


def read_source(connection: duckdb.DuckDBPyConnection, table: RepairedTable) -> DatabaseSnapshot:
    """Read the rows of a database table under one snapshot into the DuckDB table :data:`SOURCE`.

    :data:`ENVELOPE` gets one row: the values of a snapshot's rows in the columns of a change's
    envelope (its metadata, such as the operation).

    Args:
        connection: DuckDB, without these tables.
        table: The table.

    Returns:
        The snapshot, which says which changes the rows contain.

    Raises:
        InputError: The database refuses, the table does not fit, or a value does not fit its
            column.
        UnavailableError: The database does not answer.
    """
    captured = table.captured
    try:
        with access_to(captured.options.dsn).open_table(captured) as opened:
            reader = opened.readers(1)[0]
            create_empty_table(connection, "audit.read", parse_schema(captured.columns))
            for batch in reader.rows(Division(None, []), 0):
                insert_arrow(connection, "audit.read", pa.Table.from_batches([batch]))
            snapshot = reader.snapshot
    except (QueryError, Misfit) as error:
        raise _unread(captured, error) from None
    renamed = ", ".join(f"{quoted(old)} AS {quoted(new)}" for old, new in table.names.items())
    connection.execute(f"CREATE TABLE {SOURCE} AS SELECT {renamed} FROM audit.read")
    connection.execute("DROP TABLE audit.read")
    sort_maps(connection, SOURCE)
    values, declared = snapshot.envelope(), table.topic.declared_columns or {}
    arrays = {
        name: pa.array([values.get(part)], parse_type(declared[name]))
        for name, part in table.parts.items()
    }
    connection.register("_envelope", pa.table(arrays))
    connection.execute(f"CREATE TABLE {ENVELOPE} AS SELECT * FROM _envelope")
    connection.unregister("_envelope")
    return snapshot


def read_target(connection: duckdb.DuckDBPyConnection, table: RepairedTable) -> DeltaTable:
    """Read the target as it is now into :data:`TARGET`, *then* its deletes into :data:`DELETES`.

    In this order: a row that is deleted in between is in the first, and its delete in the second.

    Args:
        connection: DuckDB.
        table: The table.

    Returns:
        The version of the target that was read.

    Raises:
        InputError: A file of one of the two is missing or can't be read.
        UnavailableError: The login to the store has expired.
    """
    opened = delta_table(table.target)
    kinds = {name: duckdb_type(parse_type(kind)) for name, kind in table.columns.items()}
    names = [field.name for field in opened.schema().fields]
    casts = [
        f"CAST({quoted(name)} AS {kinds[name]}) AS {quoted(name)}"
        if name in kinds
        else quoted(name)
        for name in names
    ]
    query = f"SELECT {column_list(names)} FROM target"
    copy_rows(connection, TARGET, opened, query, ", ".join(casts))
    sort_maps(connection, TARGET)
    read_deletes(connection, table)
    return opened


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
    connection.execute(f"CREATE TABLE {DELETES} AS SELECT {columns} FROM {TARGET} LIMIT 0")


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
