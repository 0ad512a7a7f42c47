"""Windows of event time that a transform groups by, and the rows that belong to them.

A window belongs to a range if it starts in it. Its rows are then those of one interval of event
times, since a window is never shorter than the distance to the next one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from sources.common.positions import Part, to_us

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Interval(NamedTuple):
    """Interval of times, from ``since`` on, before ``until``."""

    since: datetime
    until: datetime


class EventWindows(Part):
    """Tumbling or sliding windows of a transform's only stateful operator.

    Window n starts at ``offset_us`` + n · ``slide_us``, counted from 1970 in UTC (Spark's function
    ``window``: ``startTime``, ``slideDuration``, ``windowDuration``).

    Attributes:
        length_us: Length of a window, in microseconds; at least ``slide_us``.
        slide_us: Distance from the start of a window to the next one's, in microseconds.
        offset_us: Start of some window, in microseconds.
        column: Column of the table that has the windows' starts or ends, or the windows.
        field: Field of ``column`` with the starts, if it has whole windows; None otherwise.
        holds: Whether ``column`` has their starts or their ends.
        is_selective: Whether the transform may drop windows by what they contain.
    """

    length_us: int
    slide_us: int
    offset_us: int
    column: str
    field: str | None = None
    holds: Literal["start", "end"]
    is_selective: bool = False

    def read_for(self, since: datetime, until: datetime) -> Interval | None:
        """Return the span of the windows that start in a range; None if no window starts in it.

        Args:
            since: The first time of the range.
            until: The first time after it.

        Returns:
            From the start of the first window to the end of the last one; None if no window starts
            in the range.
        """
        first, after = self._start_from(to_us(since)), self._start_from(to_us(until))
        if first == after:
            return None
        return Interval(_moment(first), _moment(after - self.slide_us + self.length_us))

    def latest_until(self, final: datetime) -> datetime:
        """Return the latest end of a range whose windows have all ended by a time.

        Args:
            final: The time; a window that ends exactly then has ended.
        """
        return _moment(self._start_from(to_us(final) - self.length_us + 1))

    def in_column(self, since: datetime, until: datetime) -> Interval:
        """Return the values of the table's time column for windows that start in a range."""
        later = timedelta(microseconds=self.length_us if self.holds == "end" else 0)
        return Interval(since + later, until + later)

    def _start_from(self, time_us: int) -> int:
        """Return the first start at or after a time, both in microseconds."""
        return time_us + (self.offset_us - time_us) % self.slide_us


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)
