"""Event times of rows: the limits within which they count, and the range of those that do.

Here is only the comparison. What happens to rows outside is decided by ``event_time.outside``: for
files in :mod:`sources.files.outside_bounds`, for records of a topic in
``spark_jobs.inside.readers.topics.event_times``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP
from sources.formats.arrow_columns import as_column

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class TimeLimits(NamedTuple):
    """Limits of event times, all inclusive, in Unix microseconds; by default none.

    Attributes:
        low, high: Lowest and highest event time that counts: the bounds of ``event_time``.
        first, last: Lowest and highest event time that is read: those of ``time_range``.
        keeps: Whether rows whose event time does not count are read like others (``outside:
            keep``).
    """

    low: int = _MIN
    high: int = _MAX
    first: int = _MIN
    last: int = _MAX
    keeps: bool = False


EVERY_TIME = TimeLimits()
"""Limits within which every event time counts and is read."""


class EventTimeRange(NamedTuple):
    """Number of rows of a file or split, and the lowest and highest of their event times.

    Attributes:
        rows: Number of rows; None if it is unknown.
        low: Lowest event time that counts and is read, in microseconds since 1970; None if no row
            has one.
        high: Highest such event time, likewise.
        nulls: Number of rows without an event time; None if it is unknown.
        outside: Number of rows whose event time is outside of the bounds, among those looked at.
        outside_low: Lowest event time of those rows, in microseconds; None without any.
        outside_high: Highest event time of those rows, likewise.
    """

    rows: int | None
    low: int | None
    high: int | None
    nulls: int | None
    outside: int = 0
    outside_low: int | None = None
    outside_high: int | None = None


def table_of_ranges(ranges: Sequence[EventTimeRange]) -> pa.Table:
    """Return event-time ranges as an Arrow table: a row per range, an int64 column per field.

    A time that no int64 can hold becomes the nearest one that it can, which is out of all bounds.
    Without ranges it has no rows.
    """
    columns = zip(*ranges, strict=True) if ranges else [()] * len(EventTimeRange._fields)
    return pa.table(
        [
            pa.array(
                (None if at is None else min(max(at, _MIN), _MAX) for at in values), pa.int64()
            )
            for values in columns
        ],
        names=EventTimeRange._fields,
    )


def microseconds(values: pa.ChunkedArray, unit_us: int | None = None) -> pa.ChunkedArray:
    """Return event times as microseconds since 1970 (int64); null where a value is null.

    Args:
        values: Timestamps, or integers.
        unit_us: Microseconds in the unit of integers; None for timestamps. A time that no int64 can
            hold becomes the nearest multiple of the unit that one can.

    Raises:
        pyarrow.ArrowInvalid: A timestamp is one that microseconds can't hold.
    """
    if unit_us is None:
        return pa.chunked_array(
            [as_column(chunk, TIMESTAMP).cast(pa.int64()) for chunk in values.chunks], pa.int64()
        )
    most = pa.scalar(_MAX // unit_us, pa.int64())
    within = pc.min_element_wise(values.cast(pa.int64()), most, skip_nulls=False)
    within = pc.max_element_wise(within, pc.negate(most), skip_nulls=False)
    return pc.multiply(within, unit_us)


def is_outside(micros: pa.ChunkedArray, low: int, high: int) -> pa.ChunkedArray:
    """Return, for each event time in microseconds, whether it is out of inclusive bounds.

    False where there is no event time.
    """
    outside = pc.or_(pc.less(micros, low), pc.greater(micros, high))
    return pc.fill_null(outside, fill_value=False)


def column_range(
    values: pa.ChunkedArray, unit_us: int | None = None, limits: TimeLimits = EVERY_TIME
) -> EventTimeRange:
    """Compute number of rows and range of event times from the values of a column.

    Nulls are counted, and are in no range; so are times outside of the limits.

    Args:
        values: The event-time column: timestamps, or integers.
        unit_us: Microseconds in the unit of integers; None for timestamps.
        limits: Limits within which times count and are read.

    Raises:
        pyarrow.ArrowInvalid: A timestamp is one that microseconds can't hold.
    """
    micros = microseconds(values, unit_us)
    low, high = _extremes(micros)
    found = EventTimeRange(len(values), low, high, values.null_count)
    if low is None or high is None or _contains(limits, low, high):
        return found
    mask = is_outside(micros, limits.low, limits.high)
    outside = micros.filter(mask)
    read = micros.filter(pc.invert(is_outside(micros, *_read(limits))))
    low, high = _extremes(read)
    outside_low, outside_high = _extremes(outside)
    return found._replace(
        low=low,
        high=high,
        outside=len(outside),
        outside_low=outside_low,
        outside_high=outside_high,
    )


def merge_ranges(ranges: Iterable[EventTimeRange]) -> EventTimeRange:
    """Combine the ranges of parts of a file to that of all their rows.

    A number that is None for one part is None for all. Without parts: 0 rows and no times.
    """
    parts = list(ranges)

    def total(name: str) -> int | None:
        numbers = [getattr(part, name) for part in parts]
        return None if None in numbers else sum(numbers)

    def known(name: str) -> list[int]:
        return [at for part in parts if (at := getattr(part, name)) is not None]

    return EventTimeRange(
        rows=total("rows"),
        low=min(known("low"), default=None),
        high=max(known("high"), default=None),
        nulls=total("nulls"),
        outside=sum(part.outside for part in parts),
        outside_low=min(known("outside_low"), default=None),
        outside_high=max(known("outside_high"), default=None),
    )


def _read(limits: TimeLimits) -> tuple[int, int]:
    return max(limits.low, limits.first), min(limits.high, limits.last)


def _contains(limits: TimeLimits, low: int, high: int) -> bool:
    first, last = _read(limits)
    return first <= low and high <= last


def _extremes(micros: pa.ChunkedArray) -> tuple[int | None, int | None]:
    found = pc.min_max(micros)
    return found["min"].as_py(), found["max"].as_py()
