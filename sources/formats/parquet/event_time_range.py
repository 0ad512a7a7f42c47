"""The range of event times of a Parquet file: by its footer, or by reading the column."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.sql.select import EventColumn
from sources.formats.deletion_vectors import kept_rows
from sources.formats.event_times import (
    EVERY_TIME,
    EventTimeRange,
    TimeLimits,
    column_range,
)
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import footer_of, parse_safely, unreadable
from sources.storage.stores import Stores

REQUESTS = 64
"""Threads that wait for answers of a store."""
THREADS = 16
"""Threads that read files of this machine, or columns of files anywhere."""
_FACTORS = {"milliseconds": 1000, "microseconds": 1}


def range_by_footer(
    metadata: pq.FileMetaData, column: int, factor: int | None
) -> EventTimeRange | None:
    """Return the range of event times by the statistics in a Parquet file's footer.

    None if the statistics are missing or can't be used, so that the column has to be read.

    Args:
        metadata: The footer.
        column: Index of the event-time column.
        factor: Microseconds in the unit of the statistics; None if they can't be used.
    """
    lows: list[int] = []
    highs: list[int] = []
    nulls = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        statistics = chunk.statistics
        # There are no usable statistics of nanoseconds, nor of INT96.
        if statistics is None or factor is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        if not statistics.has_min_max:
            return None
        lows.append(statistics.min_raw * factor)
        highs.append(statistics.max_raw * factor)
    return EventTimeRange(
        metadata.num_rows, min(lows, default=None), max(highs, default=None), nulls
    )


def read_range(
    path: str,
    stores: Stores,
    event: EventColumn,
    limits: TimeLimits = EVERY_TIME,
    deleted: bytes | None = None,
) -> EventTimeRange:
    """Read the event-time column of a Parquet file, and return the range of its values.

    In a file that lacks the column, and may, no row has an event time.

    Args:
        path: The file.
        stores: Storages that the file may be in.
        event: Column of the event time.
        limits: Limits within which times count and are read.
        deleted: Deletion vector of the file, whose rows are left out; None without deleted rows.

    Raises:
        InputError: Rows are deleted, and the extra ``lake`` is not installed.
        OSError, pyarrow.ArrowException: The file can't be read.
        UnavailableError: The storage does not answer.
    """
    with stores.of(path).open(path) as stream, parquet_file(stream) as file:
        found = event.within(file.schema_arrow)
        if found is None:
            return _without_times(file.metadata.num_rows, deleted)
        values = file.read(columns=[found.name]).column(0)
    if deleted is not None:
        values = values.filter(kept_rows(deleted, len(values)))
    return column_range(values, event.unit_us, limits)


def _without_times(rows: int, deleted: bytes | None) -> EventTimeRange:
    """Return the range of event times of a file without that column."""
    left = rows if deleted is None else int(np.count_nonzero(kept_rows(deleted, rows)))
    return EventTimeRange(left, None, None, left)


def read_event_times(
    paths: Sequence[str],
    event: EventColumn,
    limits: TimeLimits,
    stores: Stores,
    deleted: Sequence[bytes | None] | None = None,
) -> list[EventTimeRange]:
    """Read the event-time column of many Parquet files, and return the range of each.

    Args:
        paths: The files.
        event: Column of the event time.
        limits: Limits within which times count and are read.
        stores: Storages that the files may be in.
        deleted: Deletion vector of each file, whose rows are left out; None if no file has any.

    Raises:
        InputError: A file can't be read.
        UnavailableError: The storage does not answer.
    """

    def read(path: str, vector: bytes | None) -> EventTimeRange:
        try:
            return read_range(path, stores, event, limits, vector)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(read, paths, deleted or [None] * len(paths)))


def with_unknown_ranges(
    known: Sequence[EventTimeRange | None],
    files: Sequence[tuple[str, bytes | None]],
    event: EventColumn,
    stores: Stores,
) -> list[EventTimeRange]:
    """Return the event-time ranges of a table's files; read those that the log does not have.

    Args:
        known: Range of each file by the log; None where it has none.
        files: Path and deletion vector of each file, in the same order.
        event: Column of the event time inside the files.
        stores: Storages that the files may be in.

    Raises:
        InputError: A file can't be read.
        UnavailableError: The storage does not answer.
    """
    unknown = [at for at, found in enumerate(known) if found is None]

    def read(at: int) -> EventTimeRange:
        path, deleted = files[at]
        try:
            metadata = footer_of(path, stores, parse_safely)
            found = None if deleted is not None else _range_in(metadata, event)
            return found or read_range(path, stores, event, EVERY_TIME, deleted)
        except (OSError, OverflowError, pa.ArrowException) as error:
            raise unreadable(path, error) from None

    is_remote = any("://" in path for path, _ in files)
    with ThreadPoolExecutor(REQUESTS if is_remote else THREADS) as pool:
        ranges = dict(zip(unknown, pool.map(read, unknown), strict=True))
    return [found or ranges[at] for at, found in enumerate(known)]


def _range_in(metadata: pq.FileMetaData, event: EventColumn) -> EventTimeRange | None:
    """Return the range of event times by a footer; None if the column has to be read."""
    schema = metadata.schema
    found = event.within(schema.to_arrow_schema())
    if found is None:
        return _without_times(metadata.num_rows, None)
    leaves = [schema.column(leaf).path for leaf in range(len(schema))]
    column = leaves.index(found.name)
    return range_by_footer(metadata, column, factor_of(schema.column(column), found))


def factor_of(column: pq.ColumnSchema, event: EventColumn) -> int | None:
    """Return how many microseconds the unit of a Parquet column's statistics has.

    None if the statistics can't be used, such as of INT96 or nanoseconds.

    Args:
        column: The column in the footer.
        event: The event-time column, with its unit if it holds integers.
    """
    if event.unit_us is not None:
        return event.unit_us
    kind = column.logical_type
    if kind.type != "TIMESTAMP" or column.physical_type != "INT64":
        return None
    return next((by for unit, by in _FACTORS.items() if f"timeUnit={unit}" in str(kind)), None)
