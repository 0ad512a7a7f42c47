"""Limits of event times: which files are read, and the range of rows that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.times import bounds_us, to_us
from sources.config.source.event_time import EventTime
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.split_table import RANGE_COLUMNS
from sources.formats.event_times import EVERY_TIME, EventTimeRange, TimeLimits, table_of_ranges
from sources.storage.folder_partitions import FolderTime, by_folder


def time_limits(event_time: EventTime, time_range: TimeRange, clock_ms: int) -> TimeLimits:
    """Combine ``event_time`` and ``time_range`` to the limits by which rows of files are read.

    All limits of the result are inclusive, in Unix microseconds.

    Args:
        event_time: Declaration of the event time, with the bounds within which one counts.
        time_range: Declared range of event times to read; ``until`` is exclusive.
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
    """Restrict the event-time ranges of splits to rows within limits; leave out empty splits.

    The order is kept. Only splits that reach beyond the limits are read again; a split that begins
    before ``time_range`` is not, as its begin moves no end position.

    Args:
        source: Declaration of the source.
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`, whose ranges
            come from all rows.
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
    """Error of a source none of whose files has a row in the source's ``time_range``."""


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

    hint = "Correct `folder_time` or `path`, or rename the folder; then plan again."

    def is_inside(folder: str) -> bool:
        try:
            span = folder_time.range_of(folder)
        except ValueError as error:
            message = (
                f"Source `{source.name}`: the name of folder {folder} is not a time by "
                f"`folder_time: {source.folder_time}`: {error}."
            )
            raise InputError(message, hint, source=source.name, file=folder) from None
        if span is None:
            message = (
                f"Source `{source.name}`: the name of folder {folder} does not match "
                f"`folder_time: {source.folder_time}`."
            )
            raise InputError(message, hint, source=source.name, file=folder)
        low, after = span
        return (limits.since is None or after > limits.since) and (
            limits.until is None or low < limits.until
        )

    return _require_some(source, files.filter(by_folder(files, is_inside, pa.bool_())))


def in_range(source: FileSource, splits: pa.Table, *, exact: bool) -> pa.Table:
    """Return the splits that may hold rows in the source's time range, by their event times.

    Rows out of the bounds of ``event_time`` are considered as well. Splits without known event
    times are kept.

    Args:
        source: Declaration of the source.
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`.
        exact: Whether event times come from all rows; if from a sample, all splits are kept.

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
        bounds = {"since": limits.since, "until": limits.until}
        told = " ".join(f"{word} {at.isoformat()}" for word, at in bounds.items() if at is not None)
        message = f"Source `{source.name}`: no file holds rows of its `time_range`, {told}."
        hint = "Correct `time_range` or what the source reads, or remove the source."
        raise EmptyRangeError(message, hint, source=source.name, field="time_range")
    return table
