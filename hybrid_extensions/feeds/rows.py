"""Rows to deliver to a sink: all rows of a version, or the differences between two versions.

What differs is found from the files that only one of the versions has, whoever wrote them: a
micro-batch, a MERGE, a replaced range, a compaction (whose rows are the same) or a RESTORE. The
versions in between count for nothing: a key that changed several times is delivered once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from hybrid_extensions.comparison.copied_rows import copy_rows, place_of
from hybrid_extensions.feeds.base import Form
from hybrid_extensions.feeds.delivery import DELETED
from hybrid_extensions.feeds.row_forms import selected_as
from sources.common.counting import counted
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import InputError
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, int96_as_micros, require_answer
from sources.storage.tables.delta_log import is_absolute

# Reader features that leave each file of the log readable as plain Parquet.
_PLAIN = {"timestampNtz", "typeWidening", "typeWidening-preview"}
_PLAIN |= {"v2Checkpoint", "vacuumProtocolCheck"}
_ROWS = "feed_rows"
BATCH_ROWS = 20_000
"""Rows that a sink is given at a time."""
_MEMORY = "1GB"


class CannotFollow(Exception):  # noqa: N818 - no error: the whole table is loaded then
    """Error: the changes between two versions can't be computed; the text says why."""


class Rows:
    """Rows to deliver, in a DuckDB database of their own; ``len()`` is their number.

    Args:
        connection: The database, with the rows in the table ``feed_rows``.
        key: Columns that identify a row.
        columns: All columns, with the types that they have in the table.
        is_new: SQL of whether the older version lacks the key of the row ``a``; null if unknown.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        key: Sequence[str],
        columns: pa.Schema,
        is_new: str = "CAST(NULL AS BOOLEAN)",
    ) -> None:
        self._connection, self._key, self._columns = connection, key, columns
        self._is_new = is_new

    def __len__(self) -> int:
        (found,) = self._connection.execute(f"SELECT count(*) FROM {_ROWS}").fetchall()
        return int(found[0])

    def read(self, form: Form, sample: int | None = None) -> pa.RecordBatchReader:
        """Return the rows in a sink's form, in the order of keys, in batches of up to 20,000.

        Args:
            form: ``arrow``: the columns as they are. ``text``: the same, each as DuckDB writes it,
                with nested columns as JSON and bytes as PostgreSQL's hexadecimal text. ``json``:
                ``key`` and ``row`` as JSON objects, with times in ISO 8601 with microseconds, bytes
                in base64, and numbers that are not finite as texts. ``fields``: ``name``, the texts
                of the key joined by colons, and ``fields``, a JSON array with name and text of each
                column that is not null. In all of them ``_is_deleted`` is the last column.
            sample: Largest number of rows, chosen at random; None for all.
        """
        selected = selected_as(form, self._connection.table(_ROWS), self._key)
        order = column_list(self._key)
        rows = _ROWS
        if sample is not None:
            rows = f"(FROM {_ROWS} USING SAMPLE reservoir({sample} ROWS))"
        found = self._connection.sql(f"SELECT {selected} FROM {rows} ORDER BY {order}")
        reader = found.to_arrow_reader(BATCH_ROWS)
        assert reader is not None
        return reader

    def read_to_keep(self, is_deleted: str, is_new: str) -> pa.RecordBatchReader:
        """Return the rows with the columns as they are, in no order, in batches of up to 20,000.

        Args:
            is_deleted: Name of a further column: whether the row is deleted.
            is_new: Name of a further column: whether the older version lacks the key; null in a
                load.
        """
        selected = (
            f"{column_list(self._columns.names)}, {quoted(DELETED)} AS {quoted(is_deleted)}, "
            f"{self._is_new} AS {quoted(is_new)}"
        )
        found = self._connection.sql(f"SELECT {selected} FROM {_ROWS} AS a")
        reader = found.to_arrow_reader(BATCH_ROWS)
        assert reader is not None
        return reader


@contextmanager
def all_rows(table: DeltaTable, key: Sequence[str], columns: pa.Schema) -> Iterator[Rows]:
    """Yield a copy of all rows of a version of the table.

    Args:
        table: The table, opened at the version.
        key: Columns that identify a row.
        columns: Columns that are delivered.

    Yields:
        The rows; they are deleted when the context ends.

    Raises:
        InputError: The table's rows can't be read, or a key is not unique.
        UnavailableError: The login to the store has expired.
    """
    with _database() as connection:
        copy_rows(
            connection,
            _ROWS,
            table,
            f"SELECT {column_list(columns.names)} FROM target",
            f"*, false AS {quoted(DELETED)}",
            without_maps=lambda maps: (
                f"Name the columns that the feed gets in `columns`, without {', '.join(maps)}."
            ),
        )
        _require_unique(connection, key, table)
        yield Rows(connection, key, columns)


@contextmanager
def changed_rows(
    folder: Folder, start: int, table: DeltaTable, key: Sequence[str], columns: pa.Schema
) -> Iterator[Rows]:
    """Yield the rows that differ between two versions of the table.

    Args:
        folder: The table's folder.
        start: Number of the older version.
        table: The table, opened at the newer one.
        key: Columns that identify a row.
        columns: Columns that are delivered, which both versions have.

    Yields:
        A row for each key whose row is new, differs or is gone, of the last kind with nothing but
        the key; none if the versions have the same rows. They are deleted when the context ends.

    Raises:
        CannotFollow: The changes can't be computed from the files of both versions.
        InputError: A key is not unique.
        UnavailableError: The store of the table does not answer.
    """
    try:
        older = delta_table(folder, start)
    except (DeltaError, OSError) as error:
        require_answer(folder)
        message = f"version {start} of the table can't be read any more: {error}"
        raise CannotFollow(message) from None
    before, after = _files(older), _files(table)
    with _database() as connection:
        try:
            for name, opened, files in (
                ("removed", older, {path: before[path] for path in before.keys() - after.keys()}),
                ("added", table, {path: after[path] for path in after.keys() - before.keys()}),
            ):
                dataset = _dataset(opened, folder, files)
                connection.register("_found", dataset)
                connection.execute(
                    f"CREATE TABLE {name} AS SELECT {column_list(columns.names)} FROM _found"
                )
                connection.unregister("_found")
        # VACUUM has removed a file of the older version; Arrow has no type for this of its own.
        except (OSError, duckdb.Error, pa.ArrowException) as error:
            require_answer(folder)
            message = f"a file of version {start} or {table.version()} can't be read: {error}"
            raise CannotFollow(message) from None
        connection.execute(_difference(key, columns.names))
        _require_unique(connection, key, table)
        was_there = f"EXISTS (FROM removed AS r WHERE {_same(key)})"
        yield Rows(connection, key, columns, f"NOT {was_there}")


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in a temporary folder, which has room for more rows than memory has."""
    with tempfile.TemporaryDirectory(prefix="hybrid-feed-") as folder:
        connection = duckdb.connect(str(Path(folder) / "rows.duckdb"))
        try:
            connection.execute(f"SET memory_limit = '{_MEMORY}'")
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        finally:
            connection.close()


def _files(table: DeltaTable) -> dict[str, dict[str, Any]]:
    """Return the partition values of each file of a table, by the file's path."""
    features = set(table.protocol().reader_features or ()) - _PLAIN
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        message = f"the table uses {', '.join(sorted(features))}"
        raise CannotFollow(message)
    names = table.metadata().partition_columns
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if any(is_absolute(unquote(row["path"])) for row in rows):
        message = "some files are outside of the table's folder"
        raise CannotFollow(message)
    return {row["path"]: {name: row[f"partition.{name}"] for name in names} for row in rows}


def _dataset(table: DeltaTable, folder: Folder, files: dict[str, dict[str, Any]]) -> ds.Dataset:
    """Return some files of a table as one dataset, partition columns included."""
    if folder.is_local:
        # Without Python, which Arrow's threads would have to wait for.
        store: FileSystem = SubTreeFileSystem(folder.url, LocalFileSystem())
    else:
        options = folder.documents.delta_options
        store = PyFileSystem(DeltaStorageHandler(table.table_uri, options))
    schema = pa.schema(table.schema().to_arrow())
    parquet = ds.ParquetFileFormat(read_options=int96_as_micros())
    fragments = [
        parquet.make_fragment(
            unquote(path), filesystem=store, partition_expression=_partition(schema, values)
        )
        for path, values in files.items()
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, store)


def _partition(schema: pa.Schema, values: dict[str, Any]) -> ds.Expression:
    whole = ds.scalar(True)
    for name, value in values.items():
        column = ds.field(name)
        kind = schema.field(name).type
        whole &= column.is_null() if value is None else column == pa.scalar(value, kind)
    return whole


def _difference(key: Sequence[str], columns: Sequence[str]) -> str:
    """Return SQL that makes the table of rows that differ from ``removed`` and ``added``."""
    same = _same(key)
    others = [each for each in columns if each not in key]
    differs = " OR ".join(f"a.{quoted(each)} IS DISTINCT FROM r.{quoted(each)}" for each in others)
    mark = quoted(DELETED)
    gone = ", ".join(
        f"r.{quoted(each)}" if each in key else f"NULL AS {quoted(each)}" for each in columns
    )
    return f"""
        CREATE TABLE {_ROWS} AS
        SELECT a.*, false AS {mark} FROM added AS a LEFT JOIN (SELECT *, true AS __was FROM removed)
        AS r ON {same} WHERE r.__was IS NULL OR {differs or "false"}
        UNION ALL BY NAME
        SELECT {gone}, true AS {mark} FROM removed AS r
        WHERE NOT EXISTS (FROM added AS a WHERE {same})
    """


def _same(key: Sequence[str]) -> str:
    """Return SQL of whether the rows ``a`` and ``r`` have the same key."""
    return " AND ".join(f"a.{quoted(each)} IS NOT DISTINCT FROM r.{quoted(each)}" for each in key)


def _require_unique(
    connection: duckdb.DuckDBPyConnection, key: Sequence[str], table: DeltaTable
) -> None:
    names = column_list(key)
    found = connection.execute(
        f"SELECT {names}, count(*) FROM {_ROWS} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
    ).fetchall()
    if not found:
        return
    *values, count = found[0]
    path = place_of(table)
    shown = ", ".join(
        f"{name}={'null' if value is None else value}"
        for name, value in zip(key, values, strict=True)
    )
    message = (
        f"The table {path} has {counted(count, 'row')} of the key {shown} at version "
        f"{table.version()}, so a feed can't tell which one is its last value. Nothing was "
        "delivered."
    )
    hint = "Declare a `sink.key` that identifies each row, or a sink with `mode: merge`."
    raise InputError(message, hint, table=path, field="sink.key", value=shown)
