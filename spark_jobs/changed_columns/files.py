"""The Parquet files of a table: their row groups, and how many bytes each column takes in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq

from sources.storage.folder import Folder
from spark_jobs.table.delta_table import missing_file
from spark_jobs.table.table_snapshot import TableSnapshot

_AT_ONCE = 16


class TableFile(NamedTuple):
    """A data file of a table.

    Attributes:
        path: Its path relative to the table's folder, as it is on disk.
        add: Its ``add`` action in the log.
        groups: Number of rows of each row group, in order.
        sizes: Bytes of each column as they are stored, compressed, by name of the top-level column.
    """

    path: str
    add: dict[str, Any]
    groups: tuple[int, ...]
    sizes: Counter[str]


def read_files(table: TableSnapshot) -> list[TableFile]:
    """Read the footers of a table's files that have rows.

    Raises:
        StateError: A file is missing.
    """

    def one(add: dict[str, Any]) -> TableFile:
        return _described(table.folder, add)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [found for found in pool.map(one, table.files) if found.groups]


def size_of(files: Sequence[TableFile], columns: Sequence[str]) -> int:
    """Return how many bytes some columns take in files."""
    return sum(each.sizes[name] for each in files for name in columns)


def _described(folder: Folder, add: dict[str, Any]) -> TableFile:
    path = unquote(add["path"])
    try:
        footer = pq.read_metadata(folder.path(path))
    except FileNotFoundError:
        raise missing_file(folder.location(path)) from None
    groups, sizes = [], Counter[str]()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        groups.append(group.num_rows)
        for at in range(group.num_columns):
            chunk = group.column(at)
            sizes[chunk.path_in_schema.partition(".")[0]] += chunk.total_compressed_size
    return TableFile(path, add, tuple(groups), sizes)
