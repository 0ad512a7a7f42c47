"""Peaks of a day: highest lag and throughput of 24 hours, kept in at most 96 intervals.

The samples of a progress log become fewer the older they are, and peaks go with those that are
dropped. An interval keeps the highest values of its time, so a maximum over all intervals is one
over the whole day.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pydantic import Field

from sources.common.durations import DAY_MS
from sources.common.state_document import Part

MOST = 96
"""Maximum of intervals; beyond it, they become twice as long."""
_FIRST_MS = 60_000


class Interval(Part):
    """Peaks of a source's lag and throughput within a time interval.

    Attributes:
        at_ms: Its start, in Unix milliseconds.
        left: Most units that waited to be committed; None if that was never known.
        per_s: Most units that were committed per second, over a minute; None if that was never
            known.
    """

    at_ms: int
    left: int | None = None
    per_s: float | None = None


class LastDay(Part):
    """Peaks of a source's lag and throughput in the last 24 hours, over all of its launches.

    Attributes:
        length_ms: Length of each interval; it grows with the time that is covered.
        intervals: The intervals that have values, oldest first; at most ``MOST``.
    """

    length_ms: int = _FIRST_MS
    intervals: list[Interval] = Field(default_factory=list)

    def with_values(self, at_ms: int, left: int | None, per_s: float | None) -> LastDay:
        """Return a copy with the values of one more moment, and without intervals older than a day.

        Args:
            at_ms: The moment, in Unix milliseconds; not before any earlier one.
            left: Units that wait to be committed; None if unknown.
            per_s: Units that were committed per second; None if unknown.
        """
        length_ms = self.length_ms
        kept = [each for each in self.intervals if each.at_ms + length_ms > at_ms - DAY_MS]
        start_ms = at_ms - at_ms % length_ms
        same = [kept.pop()] if kept and kept[-1].at_ms == start_ms else []
        kept.append(_highest(start_ms, [*same, Interval(at_ms=at_ms, left=left, per_s=per_s)]))
        while len(kept) > MOST:
            length_ms *= 2
            kept = _merged(kept, length_ms)
        return LastDay(length_ms=length_ms, intervals=kept)


def _merged(intervals: Sequence[Interval], length_ms: int) -> list[Interval]:
    """Return one interval for each that begins within the same ``length_ms``."""
    groups = groupby(intervals, lambda each: each.at_ms // length_ms)
    return [_highest(number * length_ms, list(group)) for number, group in groups]


def _highest(start_ms: int, intervals: Sequence[Interval]) -> Interval:
    """Return the highest values of some intervals as those of one."""
    return Interval(
        at_ms=start_ms,
        left=max((each.left for each in intervals if each.left is not None), default=None),
        per_s=max((each.per_s for each in intervals if each.per_s is not None), default=None),
    )
