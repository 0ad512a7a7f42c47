"""Delta and other lake tables for the audit: by DuckDB, or by the table's own library."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybrid_extensions.audit.computed.proven_expressions import NotProvenError
from hybrid_extensions.comparison.duckdb_database import create_empty_table, insert_arrow
from sources.config.source.file_source import FileSource
from sources.storage.tables.delta import query_rows


def delta_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    table: DeltaTable,
    files: str,
    name: str,
) -> str:
    """Return a FROM clause for the rows of a Delta table.

    DuckDB reads the files of a table without partitions, deletion vectors and renamed columns; rows
    of others are loaded into a new table by delta-rs. The new table is created in both cases; empty
    in the first.

    Args:
        connection: The audit's database.
        source: The source.
        table: The Delta table.
        files: Call of DuckDB's reader for its files.
        name: Quoted name of the new table.

    Raises:
        NotProvenError: delta-rs can't read the table.
    """
    columns = pa.schema(table.schema().to_arrow())
    if _is_plain(table):
        # A column that was added to the table may be in no file yet.
        create_empty_table(connection, name, columns)
        return f"(SELECT * FROM {name} UNION ALL BY NAME SELECT * FROM {files})"
    try:
        rows = query_rows(table, "SELECT * FROM target")
        _load_table(connection, columns, map(pa.table, rows), name)
    except DeltaError as error:
        message = (
            f"the rows of source `{source.name}` can't be read by delta-rs, which reads Delta "
            f"tables for the audit: {str(error).strip().removesuffix('.')}"
        )
        raise NotProvenError(message) from None
    return name


def load_batches(
    connection: duckdb.DuckDBPyConnection, batches: pa.RecordBatchReader, name: str
) -> None:
    """Load the rows that a lake table's library reads into a new table of the audit's database.

    The table has the columns of ``batches`` also without rows.

    Args:
        connection: The audit's database.
        batches: The rows.
        name: Quoted name of the new table.
    """
    parts = (pa.Table.from_batches([batch]) for batch in batches)
    _load_table(connection, batches.schema, parts, name)


def _is_plain(table: DeltaTable) -> bool:
    """Return whether the rows of a Delta table are those of its files, as they stand there.

    They are not if its log has the values of partition columns, deleted rows or other names of
    columns; nor are they found where it has no files.
    """
    metadata = table.metadata()
    features = table.protocol().reader_features or ()
    return (
        metadata.configuration.get("delta.columnMapping.mode", "none") == "none"
        and not metadata.partition_columns
        and "deletionVectors" not in features
        and bool(table.file_uris())
    )


def _load_table(
    connection: duckdb.DuckDBPyConnection, columns: pa.Schema, parts: Iterable[pa.Table], name: str
) -> None:
    """Create a table of the rows of a lake's table, read by its own library."""
    create_empty_table(connection, name, columns)
    for part in parts:
        insert_arrow(connection, name, part)
