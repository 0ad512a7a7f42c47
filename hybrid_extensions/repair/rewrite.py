"""Rewrite of the target's files with rows to repair, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from hybrid_extensions.generations.files.file_rows import FileReader, remove_action
from hybrid_extensions.generations.files.linked_files import add_action, link_files
from hybrid_extensions.repair.compared_rows import DELETES, read_deletes
from hybrid_extensions.repair.differences import REPAIRS, in_keys
from hybrid_extensions.repair.positions import is_newer
from hybrid_extensions.repair.repairable_table import RepairedTable
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import StateError
from sources.storage.folder import Folder
from sources.storage.tables.delta import dataset_of, is_delta_table
from spark_jobs.table.delta_table import commit_files, commit_once, open_table
from spark_jobs.table.kept_deletes import append_deletes

_CHANGED = "audit.changed"
_HELD, _NUMBER = "_held", "_number"
_BATCH_ROWS = 100_000


class Touched(NamedTuple):
    """Files of the target that a repair rewrites.

    Attributes:
        files: Number of files.
        bytes: Their total size.
    """

    files: int
    bytes: int


class Rewritten(NamedTuple):
    """Result of a repair's commit.

    Attributes:
        version: Version of the target that it made; None if nothing was left to repair.
        changed: Number of keys that were changed since they were compared, and are left as they
            are.
    """

    version: int | None
    changed: int


def files_to_rewrite(
    connection: duckdb.DuckDBPyConnection, table: RepairedTable, opened: DeltaTable
) -> Touched:
    """Return how many files of the target have rows to repair, and their size.

    Args:
        connection: DuckDB, with the rows to repair.
        table: The table.
        opened: The version of the target that was compared.
    """
    read = FileReader(opened)
    found = [row for row in _files(opened) if _matching(connection, table, read, row).num_rows]
    return Touched(len(found), sum(row["size_bytes"] for row in found))


def rewrite(
    connection: duckdb.DuckDBPyConnection,
    table: RepairedTable,
    version: str,
    transaction: str,
    scratch: Folder,
) -> Rewritten:
    """Write the rows of :data:`REPAIRS` in one commit; the caller keeps micro-batches from merging.

    A row or delete that became newer since it was compared wins. Deletes of rows that are removed
    are written before, so that a repair that is interrupted in between has changed no row.

    Args:
        connection: DuckDB, with the rows to repair; those that became newer are removed there.
        table: The table.
        version: Log position of the rows that are written.
        transaction: Delta application id of the commit.
        scratch: Folder for rewritten rows; it is created, and the caller removes it.

    Raises:
        StateError: Another writer than the live run has changed the same files meanwhile.
        InputError: A table can't be read.
        UnavailableError: A store does not answer.
    """
    opened = open_table(table.target)
    files, read = _files(opened), FileReader(opened)
    read_deletes(connection, table)
    keys = column_list(table.key)
    newer = is_newer(quoted(table.position), version)
    connection.execute(
        f"CREATE TABLE {_CHANGED} AS SELECT {keys} FROM {DELETES} d "
        f"WHERE {newer} AND {in_keys(REPAIRS, table.key, 'd')}"
    )
    touched = []
    for row in files:
        if (held := _matching(connection, table, read, row)).num_rows:
            touched.append(row)
            connection.register(_HELD, held)
            connection.execute(f"INSERT INTO {_CHANGED} SELECT {keys} FROM {_HELD} WHERE {newer}")
            connection.unregister(_HELD)
    is_changed = in_keys(_CHANGED, table.key, "r")
    changed = connection.execute(f"SELECT count(*) FROM {REPAIRS} r WHERE {is_changed}")
    [(count,)] = changed.fetchall()
    connection.execute(f"DELETE FROM {REPAIRS} r WHERE {is_changed}")
    removed = []
    for row in touched:
        held = _matching(connection, table, read, row)
        if not held.num_rows:
            continue
        removed.append(row)
        rows = read.rows(row)
        goes = pc.is_in(_numbers(rows), value_set=held[_NUMBER].combine_chunks())
        if (stays := rows.filter(pc.invert(goes))).num_rows:
            _append(opened, scratch, stays)
    schema = dataset_of(opened).schema
    kept = "true" if table.deletes is None else "_kind <> 'extra'"
    query = f"SELECT {column_list(schema.names)} FROM {REPAIRS} WHERE {kept}"
    for batch in _batches(connection, query, schema):
        _append(opened, scratch, batch)
    written = _files(open_table(scratch)) if is_delta_table(scratch) else []
    if not (written or removed):
        return Rewritten(None, count)
    _keep_deletes(connection, table, schema)
    added = [_bring(scratch, table.target, row) for row in written]
    actions = [*added, *map(remove_action, removed)]
    try:
        commit = partial(commit_files, opened, actions)
        commit_once(commit, table.target, Transaction(transaction, 1))
    except CommitFailedError as error:
        message = (
            f"The repair of {table.target} can't be committed, as another writer than the live run "
            f"has changed the same files: {str(error).rstrip('.')}. No row has changed."
        )
        hint = "Stop jobs that write or compact the table, such as OPTIMIZE, and repair again."
        raise StateError(message, hint, transient=True, table=table.target.url) from None
    return Rewritten(open_table(table.target).version(), count)


def _files(opened: DeltaTable) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = pa.table(opened.get_add_actions()).to_pylist()
    return files


def _matching(
    connection: duckdb.DuckDBPyConnection,
    table: RepairedTable,
    read: FileReader,
    row: dict[str, Any],
) -> pa.Table:
    """Return key, position and number of the rows of a file whose keys are repaired."""
    held = read.rows(row, [*table.key, table.position])
    connection.register(_HELD, held.append_column(_NUMBER, _numbers(held)))
    query = f"SELECT * FROM {_HELD} h WHERE {in_keys(REPAIRS, table.key, 'h')}"
    found: pa.Table = connection.sql(query).to_arrow_table()
    connection.unregister(_HELD)
    return found


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(range(rows.num_rows), pa.int64())


def _batches(
    connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    for batch in connection.sql(query).to_arrow_reader(_BATCH_ROWS):
        yield pa.Table.from_batches([batch]).cast(schema)


def _append(opened: DeltaTable, scratch: Folder, rows: pa.Table) -> None:
    """Add rows to the rewritten files."""
    write_deltalake(
        scratch.url,
        rows,
        mode="append",
        partition_by=opened.metadata().partition_columns or None,
        storage_options=scratch.documents.delta_options,
    )


def _keep_deletes(
    connection: duckdb.DuckDBPyConnection, table: RepairedTable, schema: pa.Schema
) -> None:
    """Keep the deletes of rows that are removed, so that no older change brings one back."""
    if table.deletes is None:
        return
    columns = [*table.key, table.position]
    query = f"SELECT {column_list(columns)} FROM {REPAIRS} WHERE _kind = 'extra'"
    rows = connection.sql(query).to_arrow_table()
    if rows.num_rows:
        append_deletes(table.deletes, rows.cast(pa.schema([schema.field(n) for n in columns])))


def _bring(scratch: Folder, target: Folder, row: dict[str, Any]) -> Any:
    """Link a file into the table's folder, and return the action that adds it."""
    name = unquote(row["path"])
    link_files(scratch, target, {name: name})
    return add_action(row, name)
