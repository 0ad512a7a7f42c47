"""Limits of event times: which files are read, and the range of rows that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.positions import bounds_us, to_us
from sources.config.source.event_time import EventTime
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.split_table import RANGE_COLUMNS
from sources.formats.event_times import EVERY_TIME, EventTimeRange, TimeLimits, table_of_ranges
from sources.storage.partitions import FolderTime, by_folder


def time_limits(event_time: EventTime, time_range: TimeRange, clock_ms: int) -> TimeLimits:
    """Return the limits within which event times of files count and are read.

    Args:
        event_time: Declaration of the event time.
        time_range: Declared range of event times to read.
        clock_ms: The clock at which the bounds are measured, in Unix milliseconds.
    """
    low, high = bounds_us(*event_time.bounds_ms(clock_ms))
    since, until = time_range.since, time_range.until
    return TimeLimits(
        low=low,
        high=high,
        first=EVERY_TIME.first if since is None else to_us(since),
        last=EVERY_TIME.last if until is None else to_us(until) - 1,
        keeps=event_time.outside == "keep",
    )


def within_limits(
    source: FileSource,
    splits: pa.Table,
    limits: TimeLimits,
    read: Callable[[pa.Table], Sequence[EventTimeRange]],
) -> pa.Table:
    """Return splits with their event-time ranges restricted to the limits, in the same order.

    Splits of which no row is read are left out.

    Splits within the bounds and before the end of ``time_range`` cost nothing; of the others the
    event times are read. The begin of ``time_range`` does not matter: it moves no end.

    Args:
        source: Declaration of the source.
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`, whose ranges are
            exact.
        limits: Limits within which event times count and are read.
        read: Reads the ranges of some of the splits, within the limits.

    Raises:
        InputError: A file can't be read.
        UnavailableError: A storage does not answer.
        EmptyRangeError: No split is left.
    """
    low, high = splits["event_min_us"], splits["event_max_us"]
    cut = pc.or_kleene(
        pc.less(low, limits.low), pc.greater(high, min(limits.high, limits.last))
    ).combine_chunks()
    cut = pc.fill_null(cut, fill_value=False)
    if pc.any(cut).as_py():
        ranges = table_of_ranges(read(splits.filter(cut)))
        for name, values in zip(RANGE_COLUMNS, ranges.columns, strict=True):
            at = splits.column_names.index(name)
            new = pc.replace_with_mask(splits[name].combine_chunks(), cut, values.combine_chunks())
            splits = splits.set_column(at, splits.schema.field(at), new)
    if source.time_range == TimeRange() or limits.keeps:
        return splits
    # A file that only rows outside of the bounds have placed in the time range is not read.
    low, high = splits["event_min_us"], splits["event_max_us"]
    inside = pc.and_(pc.greater_equal(high, limits.first), pc.less_equal(low, limits.last))
    others = pc.or_(pc.greater(splits["nulls"], 0), pc.equal(splits["outside"], 0))
    is_read = pc.if_else(pc.is_valid(low), inside, others)
    return _require_some(source, splits.filter(is_read))


class EmptyRangeError(InputError):
    """No file of a source holds a row whose event time is in the source's ``time_range``."""


def in_range_by_folder(source: FileSource, files: pa.Table) -> pa.Table:
    """Return the files that may hold rows in the time range, by the names of their folders.

    No file is opened. Without ``folder_time`` or ``time_range`` all files are returned.

    Args:
        source: Declaration of the source.
        files: A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: A folder's name does not match ``folder_time``, or contains a time that does not
            exist.
        EmptyRangeError: No file is left.
    """
    limits = source.time_range
    if source.folder_time is None or limits == TimeRange():
        return files
    folder_time = FolderTime(source.folder_time)

    def is_inside(folder: str) -> bool:
        try:
            span = folder_time.range_of(folder)
        except ValueError as error:
            message = (
                f"Source `{source.name}`: the name of folder {folder} is not a time by "
                f"`folder_time: {source.folder_time}`: {error}."
            )
            hint = "Correct `folder_time` or `path`, or rename the folder; then plan again."
            raise InputError(message, hint, source=source.name, file=folder) from None
        if span is None:
            message = (
                f"Source `{source.name}`: the name of folder {folder} does not match "
                f"`folder_time: {source.folder_time}`."
            )
            hint = (
                "Correct `folder_time`, rename the folder, or let `path` not match it; then plan "
                "again."
            )
            raise InputError(message, hint, source=source.name, file=folder)
        low, after = span
        return (limits.since is None or after > limits.since) and (
            limits.until is None or low < limits.until
        )

    return _require_some(source, files.filter(by_folder(files, is_inside, pa.bool_())))


def in_range(source: FileSource, splits: pa.Table, *, exact: bool) -> pa.Table:
    """Return the splits that may hold rows in the source's time range, by their event times.

    Rows whose event times do not count are looked at, too. Splits whose event times are not known
    are returned.

    Args:
        source: Declaration of the source.
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`.
        exact: Whether event times come from all rows; with those of a sample, all splits are
            returned.

    Raises:
        EmptyRangeError: No split is left.
    """
    limits = source.time_range
    if not exact or limits == TimeRange():
        return splits
    low = pc.min_element_wise(splits["event_min_us"], splits["outside_min_us"])
    high = pc.max_element_wise(splits["event_max_us"], splits["outside_max_us"])
    keep, inside = pc.is_null(low), pc.is_valid(low)
    if limits.since is not None:
        inside = pc.and_kleene(inside, pc.greater_equal(high, to_us(limits.since)))
    if limits.until is not None:
        inside = pc.and_kleene(inside, pc.less(low, to_us(limits.until)))
    return _require_some(source, splits.filter(pc.or_kleene(keep, inside)))


def _require_some(source: FileSource, table: pa.Table) -> pa.Table:
    if not table.num_rows:
        limits = source.time_range
        since, until = (
            moment.isoformat() if moment is not None else "…"
            for moment in (limits.since, limits.until)
        )
        message = (
            f"Source `{source.name}`: no file holds rows from {since} until {until}, its "
            "`time_range`."
        )
        hint = "Correct `time_range`, let `path` match files of that time, or remove the source."
        raise EmptyRangeError(message, hint, source=source.name, field="time_range")
    return table
