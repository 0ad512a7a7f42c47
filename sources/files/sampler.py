"""Event times of formats without statistics, from a sample of rows of each region."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from sources.config.file_source import FileSource
from sources.files.format_registry import format_of
from sources.formats.compression import codec_of
from sources.formats.lines import BadRow, refuse
from sources.formats.open import open_file, readable_region
from sources.formats.parquet import EventTimeRange, column_range
from sources.formats.regions import Region
from sources.storage.stores import Stores

SAMPLE_BYTES = 1 << 20


class Sampler:
    """Reader of samples of regions; safe to use from several threads.

    Args:
        source: Declaration of the source.
        columns: Columns of its files.
        event_time: Event-time column.
        stores: Storages of the pipeline.

    Attributes:
        bad: Bad rows that were found and are tolerated (``on_bad_record``), without their content.
    """

    def __init__(
        self, source: FileSource, columns: pa.Schema, event_time: str, stores: Stores
    ) -> None:
        self._source = source
        self._form = format_of(source)
        self._columns = columns
        self._event_time = event_time
        self._stores = stores
        self.bad: list[BadRow] = []

    def ends(self, region: Region) -> EventTimeRange:
        """Return the event-time range of a region's first and last rows.

        The highest one is never above the true highest one. All rows are read where the format
        records their number.

        Raises:
            InputError: The region can't be read, or a bad row is not tolerated.
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
        """Return the event-time range of the first rows of a region that are not bad."""
        if not region.length:
            return EventTimeRange(0, None, None, 0)
        with open_file(region.path, self._form, self._stores) as file:
            return self._look(file, [readable_region(region)], None, 1)

    def _look(
        self, file: pa.NativeFile, parts: list[Region], rows: int | None, most: int | None
    ) -> EventTimeRange:
        # All columns, so that values that do not fit are found before anything runs.
        ranges = [
            column_range(self._source.selection.evaluate(self._event_time, batch))
            for part in parts
            for batch in islice(self._form.read(file, part, self._columns, self._on_bad), most)
        ]
        lows = [part.low for part in ranges if part.low is not None]
        highs = [part.high for part in ranges if part.high is not None]
        nulls = None if rows is None else sum(part.nulls or 0 for part in ranges)
        return EventTimeRange(rows, min(lows, default=None), max(highs, default=None), nulls)

    def _on_bad(self, row: BadRow) -> None:
        if self._source.on_bad_record == "fail":
            refuse(row)
        self.bad.append(row._replace(content=b""))


def _ends(region: Region) -> list[Region]:
    first = region._replace(length=min(SAMPLE_BYTES, region.length))
    behind = max(region.offset + region.length - SAMPLE_BYTES, first.offset + first.length)
    last = region._replace(offset=behind, length=region.offset + region.length - behind)
    return [part for part in (first, last) if part.length]
