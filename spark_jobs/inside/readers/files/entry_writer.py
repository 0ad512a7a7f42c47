"""Entries of a planned source's Delta log: a Parquet file with statistics, or a table of splits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sources.common.times import bounds_us
from sources.config.source.event_time import EventTime
from sources.config.source.file_source import FileSource
from sources.formats.deletion_vectors import count_deleted
from sources.formats.parquet.table_file import moment_in_log
from sources.planning.files.file_plan import FoundFiles
from sources.storage.folder_partitions import spark_values_of
from sources.storage.stores import Stores
from spark_jobs.inside.readers.files.drifted_columns import (
    lacking_columns,
    lacking_values,
    other_columns,
)
from spark_jobs.inside.readers.files.plan_entries import PlannedPart, Version
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog
from spark_jobs.inside.readers.files.staged_outside_rows import BOUNDS

_ENTRY_COLUMNS = pa.schema(
    [
        ("rank", pa.int64()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),
        ("etag", pa.string()),
        ("partition", pa.string()),
        *BOUNDS,
    ]
)
_ARRIVAL = pa.field("arrived_from", pa.int64())
# Columns of a Parquet file's split that its log entry is made of.
_ENTRY_OF = (
    *("path", "size", "partition", "rows", "event_min_us", "event_max_us", "outside", "layout"),
    "deleted",
)


@dataclass(frozen=True)
class EntryWriter:
    """Writer of the entries of a source's Delta log.

    An entry of a source that Spark reads is a Parquet file, with its statistics, and with constant
    columns: the bounds of event times that count, and what the file lacks. An entry of another
    source is a small table of splits, which tasks parse.

    Attributes:
        source: The declaration.
        read: Columns of its rows before ``select``.
        partitions: Names of the partition columns.
        event_time: Declaration of the event time.
        stores: Access to the storage that holds the files.
    """

    source: FileSource
    read: pa.Schema
    partitions: Sequence[str]
    event_time: EventTime
    stores: Stores

    def write(
        self,
        log: PlanLog,
        versions: Sequence[Version],
        parts: Sequence[PlannedPart],
        found: Sequence[FoundFiles],
    ) -> None:
        """Write the versions of a Delta log that it does not have yet; it can be repeated.

        Args:
            log: The log.
            versions: Its versions from the first one on.
            parts: All parts of the source's plan, which the versions refer to by number.
            found: The listing that each of these parts is from; at least one if Spark reads the
                source.

        Raises:
            InputError: Spark reads the source, and the expression of the event time in ``select``
                is not SQL; or a file has deleted rows, and the extra ``lake`` is not installed.
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        is_native = self.source.is_read_by_spark
        files = self._native_files(parts, found) if is_native else FilesOfLog(self._split_columns)
        for number, version in enumerate(versions):
            if not log.has(number):
                part, listing = parts[version.part], found[version.part]
                entries = (
                    self._of_files(version, part, listing, found[0])
                    if is_native
                    else self._of_splits(version, part, listing, log)
                )
                log.write(number, files, entries)

    def _native_files(
        self, parts: Sequence[PlannedPart], found: Sequence[FoundFiles]
    ) -> FilesOfLog:
        lacking = lacking_columns(self.source)
        partitions = [*self.partitions, *BOUNDS.names, *lacking.names]
        others = other_columns(self.source, self.read)
        columns = pa.schema([*self.read, *others, *BOUNDS, *lacking])
        deleted = [part.splits["deleted"] for part in parts]
        have_deleted = any(of.null_count < len(of) for of in deleted)
        return FilesOfLog(columns, partitions, found[0].mapping, have_deleted)

    def _of_files(
        self, version: Version, part: PlannedPart, found: FoundFiles, first: FoundFiles
    ) -> Iterator[Entry]:
        event = self.source.event_column(self.event_time.column)
        # A renamed column is no column of the log that could be skipped by.
        is_plain = event is not None and event.unit_us is None and not event.others
        named = event.name if is_plain and event is not None else None
        if named is not None and (mapping := first.mapping) is not None:
            named = mapping.physical(named)
        splits = part.splits.slice(version.first, version.stop - version.first)
        values = (splits[name].to_pylist() for name in _ENTRY_OF)
        limits = {name: str(at) for name, at in _bounds(found).items()}
        lacks = lacking_values(self.source, found.layouts)
        for path, size, partition, rows, low, high, outside, of, deleted in zip(
            *values, strict=True
        ):
            uri = self.stores.of(path).uri(path)
            # Delta counts deleted rows, too; the range is that of the rows that count.
            in_file = rows + (0 if deleted is None else count_deleted(deleted))
            statistics = _statistics(in_file, None if outside else named, low, high)
            lacking = {} if of is None else lacks[of]
            values_in = {**spark_values_of(partition, self.read), **limits, **lacking}
            yield Entry(uri, size, statistics, values_in, deleted)

    @property
    def _split_columns(self) -> pa.Schema:
        """Columns of the tables of splits that the entries of other formats point at."""
        has_arrival = self.source.arrival is not None
        return pa.schema([*_ENTRY_COLUMNS, _ARRIVAL]) if has_arrival else _ENTRY_COLUMNS

    def _of_splits(
        self, version: Version, part: PlannedPart, found: FoundFiles, log: PlanLog
    ) -> Iterator[Entry]:
        known, schema = _bounds(found), self._split_columns
        for rank in range(version.first, version.stop):
            begin, end = part.splits_of(rank)
            group = part.splits.slice(begin, end - begin)
            columns = [
                pa.repeat(known[name], end - begin) if name in known else group[name]
                for name in schema.names[1:]
            ]
            table = pa.table([pa.array(np.arange(begin, end)), *columns], schema=schema)
            yield log.keep(f"splits-{version.part:04d}-{rank:06d}.parquet", table)


def _bounds(found: FoundFiles) -> dict[str, int]:
    """Return the bounds of event times that count in a listing, by name of their column."""
    times = found.times
    return dict(zip(BOUNDS.names, bounds_us(times.not_before_ms, times.not_after_ms), strict=True))


def _statistics(rows: int, event_time: str | None, low: int | None, high: int | None) -> str:
    """Return Delta's statistics of a file as JSON; event times are in microseconds, if known."""
    if event_time is None or low is None or high is None:
        return json.dumps({"numRecords": rows})
    least, most = {event_time: moment_in_log(low)}, {event_time: moment_in_log(high)}
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most})
