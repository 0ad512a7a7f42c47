"""Columns without values in any row of a Parquet file, whatever type its writer gave them.

Of texts that are all missing pandas makes a column of doubles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq

from sources.formats.parquet.event_time_range import REQUESTS, THREADS
from sources.formats.parquet.footer import read_footer
from sources.storage.stores import Stores


def columns_without_values(
    paths: Sequence[str], names: Collection[str], stores: Stores
) -> list[frozenset[str]]:
    """Return, for each Parquet file, which columns are null in every row, by its statistics.

    A column that the file lacks, or has no statistics of, is not among them. Only footers are read.
    In a file without rows each column that it has counts as null in every row.

    Args:
        paths: The files.
        names: Columns to look at; nested ones are taken to have values.
        stores: Storages that the files may be in.

    Raises:
        InputError: A file can't be read.
    """
    is_remote = any("://" in path for path in paths)
    with ThreadPoolExecutor(REQUESTS if is_remote else THREADS) as pool:
        return list(pool.map(lambda path: _empty_in(read_footer(path, stores), names), paths))


def _empty_in(metadata: pq.FileMetaData, names: Collection[str]) -> frozenset[str]:
    schema = metadata.schema
    leaves = {schema.column(at).path: at for at in range(len(schema))}
    return frozenset(name for name in names if name in leaves and _is_empty(metadata, leaves[name]))


def _is_empty(metadata: pq.FileMetaData, column: int) -> bool:
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        known = chunk.statistics
        if known is None or not known.has_null_count or known.null_count != chunk.num_values:
            return False
    return True
