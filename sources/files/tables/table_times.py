"""Event times of a table's files: from its log, from a partition, or from the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from sources.common.sql.select import EventColumn
from sources.files.listing.split_table import row_tuples
from sources.formats.deletion_vectors import count_deleted
from sources.formats.event_times import EVERY_TIME, EventTimeRange, TimeLimits, column_range
from sources.formats.parquet.event_time_range import read_event_times, with_unknown_ranges
from sources.formats.parquet.footer import read_footer
from sources.storage.folder_partitions import typed_value, values_of
from sources.storage.stores import Stores


class FilesOfVersion(NamedTuple):
    """Data files of one version of a table, before their event times are known.

    All attributes have one entry for each file, in the same order.

    Attributes:
        paths: Path of the file.
        partitions: Partition values as text, as
            :func:`sources.storage.folder_partitions.values_of` reads it.
        deleted: Deletion vector; None without deleted rows.
        rows: Number of rows, deleted ones included; None where the log does not record it.
    """

    paths: Sequence[str]
    partitions: Sequence[str]
    deleted: Sequence[bytes | None]
    rows: Sequence[int | None]

    def times(
        self, known: Sequence[EventTimeRange | None], event: EventColumn, stores: Stores
    ) -> list[EventTimeRange]:
        """Return number of rows and event-time range of each file, in order.

        Files without statistics are opened, and so are files with deleted rows, as their statistics
        include these. Deleted rows are not counted.

        Args:
            known: Statistics of each file from the table's log; None where there are none.
            event: Column of the event time inside the files.
            stores: Storages that the files may be in.

        Raises:
            InputError: A file can't be read.
            UnavailableError: The storage does not answer.
        """
        ranges = [
            None if vector is not None else found
            for found, vector in zip(known, self.deleted, strict=True)
        ]
        return with_unknown_ranges(
            ranges, list(zip(self.paths, self.deleted, strict=True)), event, stores
        )

    def times_of_partitions(
        self, column: pa.Field, event: EventColumn, stores: Stores
    ) -> list[EventTimeRange]:
        """Return number of rows and event-time range of each file if the event time is a partition.

        All rows of a file then have the same event time. Only footers are read, where the log lacks
        the number of rows. Deleted rows are not counted.

        Args:
            column: The partition column, with its type.
            event: The same column, as the event time, with the unit of its numbers.
            stores: Storages that the files may be in.

        Raises:
            InputError: The number of a file's rows is not known, and the file can't be read.
            UnavailableError: The storage does not answer.
        """
        found = []
        for path, partition, deleted, known in zip(*self, strict=True):
            rows = read_footer(path, stores).num_rows if known is None else known
            left = rows - (0 if deleted is None else count_deleted(deleted))
            found.append(_of_partition(partition, left, column, event, EVERY_TIME))
        return found


def times_within(
    splits: pa.Table,
    partition: pa.Field | None,
    event: EventColumn,
    limits: TimeLimits,
    stores: Stores,
) -> list[EventTimeRange]:
    """Read all rows of files for number and event-time range of those within limits.

    Returns one entry for each file, in order.

    Args:
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`: whole files.
        partition: The partition column that has the event time; None if the files have it.
        event: Column of the event time inside the files.
        limits: Limits within which times count and are read.
        stores: Storages that the files may be in.

    Raises:
        InputError: A file can't be read.
        UnavailableError: The storage does not answer.
    """
    if partition is not None:
        return [
            _of_partition(values, rows, partition, event, limits)
            for values, rows in row_tuples(splits, "partition", "rows")
        ]
    paths, deleted = (splits[name].to_pylist() for name in ("path", "deleted"))
    return read_event_times(paths, event, limits, stores, deleted)


def _of_partition(
    values: str, rows: int, column: pa.Field, event: EventColumn, limits: TimeLimits
) -> EventTimeRange:
    value = typed_value(values_of(values)[column.name], column.type)
    # All rows have the same time, so that one row is enough.
    one = pa.chunked_array([pa.repeat(value, min(rows, 1))], column.type)
    found = column_range(one, event.unit_us, limits)
    assert found.nulls is not None
    return found._replace(rows=rows, nulls=found.nulls * rows, outside=found.outside * rows)
