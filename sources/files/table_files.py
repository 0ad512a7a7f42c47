"""Data files of one version of a table in a lake, as the table's own log describes them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sources.common.select import EventColumn
from sources.files.mapped_columns import MappedColumns
from sources.formats.event_times import EventTimeRange
from sources.storage.base import File


@dataclass(frozen=True)
class TableFiles:
    """Data files of one version of a table.

    Attributes:
        files: The files, with sizes in bytes from the table's log; ``modified_ns`` is not known.
        partitions: Partition of each file as text, ``name=value/…``, as
            :func:`sources.storage.partitions.values_of` reads it.
        partition_columns: Names of the partition columns, which no file holds.
        columns: All columns of the table.
        ranges: Number of rows and event-time range (microseconds) of each file, without deleted
            rows.
        deleted: Deletion vector of each file (:mod:`sources.formats.deleted_rows`); None without.
        mapping: Names of the columns inside the files; None if they are those of the table.
        event: Column of the event time inside the files; None if it is the table's.
    """

    files: list[File]
    partitions: list[str]
    partition_columns: list[str]
    columns: pa.Schema
    ranges: list[EventTimeRange]
    deleted: list[bytes | None]
    mapping: MappedColumns | None
    event: EventColumn | None = None
