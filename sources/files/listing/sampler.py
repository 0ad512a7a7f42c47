"""Sampler of event times in formats without statistics: it reads some rows of each region."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from sources.config.source.file_source import FileSource
from sources.files.format_registry import format_of
from sources.formats.compression import codec_of
from sources.formats.event_times import (
    EVERY_TIME,
    EventTimeRange,
    TimeLimits,
    column_range,
    merge_ranges,
)
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow, refuse
from sources.formats.open_file import open_file, readable_region
from sources.storage.stores import Stores

SAMPLE_BYTES = 1 << 20
"""Bytes that are read at the beginning, and at the end, of a region."""


class Sampler:
    """Reader of sample rows of a region: a whole file, or a byte range of a large one.

    Safe to use from several threads.

    Args:
        source: Declaration of the source.
        columns: Columns of its files.
        event_time: Name of the event-time column, after ``select``.
        stores: Storages of the pipeline.
        limits: Limits within which event times count and are read.

    Attributes:
        bad: Bad rows that were found and are tolerated (``on_bad_record``), without their content;
            a row may be in it twice.

    Raises:
        InputError: No installed extension reads the format, or its library is not installed.
    """

    def __init__(
        self,
        source: FileSource,
        columns: pa.Schema,
        event_time: str,
        stores: Stores,
        limits: TimeLimits = EVERY_TIME,
    ) -> None:
        self._source = source
        self._form = format_of(source)
        self._columns = columns
        self._event_time = event_time
        self._stores = stores
        self._limits = limits
        self.bad: list[BadRow] = []

    def ends(self, region: Region) -> EventTimeRange:
        """Return the number of rows of a region, and the event-time range of a sample of them.

        Sampled are, for ORC, all rows; for formats that can be read in regions and are not
        compressed, the rows that begin in the first and last MiB (:data:`SAMPLE_BYTES`); for other
        files the first batch of rows. So the range may be too narrow, never too wide.

        Returns:
            ``rows`` and ``nulls`` (rows without an event time) are None unless all rows were read;
            the times are None if no row that was read has an event time that counts. An empty
            region has 0 rows.

        Raises:
            InputError: The region can't be read, does not fit the columns, or has a bad row and
                ``on_bad_record`` is ``fail``.
            UnavailableError: The storage does not answer.
        """
        if not region.length:
            return EventTimeRange(0, None, None, 0)
        can_cut = self._form.splits and codec_of(region.path) is None
        with open_file(region.path, self._form, self._stores) as file:
            rows = self._form.rows(file)
            parts = _ends(region) if can_cut else [readable_region(region)]
            most = 1 if rows is None and not can_cut else None
            return self._look(file, parts, rows, most)

    def first_good(self, region: Region) -> EventTimeRange:
        """Return the event-time range of the first batch of good rows in a region.

        Called where :meth:`ends` found only bad rows or event times that don't count. The number of
        rows is None; the times are None if no good row has an event time that counts.

        Raises:
            InputError, UnavailableError: As :meth:`ends`.
        """
        if not region.length:
            return EventTimeRange(0, None, None, 0)
        with open_file(region.path, self._form, self._stores) as file:
            return self._look(file, [readable_region(region)], None, 1)

    def _look(
        self, file: pa.NativeFile, parts: list[Region], rows: int | None, most: int | None
    ) -> EventTimeRange:
        # All columns, so that values that do not fit are found before anything runs.
        ranges = [
            column_range(
                self._source.selection.evaluate(self._event_time, batch), limits=self._limits
            )
            for part in parts
            for batch in islice(self._form.read(file, part, self._columns, self._on_bad), most)
        ]
        found = merge_ranges(ranges)
        return found._replace(rows=rows, nulls=None if rows is None else found.nulls)

    def _on_bad(self, row: BadRow) -> None:
        if self._source.on_bad_record == "fail":
            refuse(row)
        self.bad.append(row._replace(content=b""))


def _ends(region: Region) -> list[Region]:
    first = region._replace(length=min(SAMPLE_BYTES, region.length))
    behind = max(region.offset + region.length - SAMPLE_BYTES, first.offset + first.length)
    last = region._replace(offset=behind, length=region.offset + region.length - behind)
    return [part for part in (first, last) if part.length]
