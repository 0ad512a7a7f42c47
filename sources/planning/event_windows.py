"""Windows of event time that a transform groups by, and the rows that belong to them.

A window belongs to a range if it starts in it. Its rows are then those of one interval of event
times, since a window is never shorter than the distance to the next one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from sources.common.state_document import Part
from sources.common.times import EPOCH, to_us

_EARLIEST_US = to_us(datetime.min.replace(tzinfo=UTC))


class Interval(NamedTuple):
    """Interval of times: ``since`` is in it (inclusive), ``until`` is not (exclusive)."""

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
        column: Column of the target with a row's window: its start, its end, or a struct of both.
        field: Field of ``column`` with the start, if the column is such a struct; else None.
        holds: Whether ``column`` has the ``start`` or the ``end`` of the window.
        is_selective: Whether the transform may drop whole windows because of their content.
    """

    length_us: int
    slide_us: int
    offset_us: int
    column: str
    field: str | None = None
    holds: Literal["start", "end"]
    is_selective: bool = False

    def read_for(self, since: datetime, until: datetime) -> Interval | None:
        """Return the event times of all rows that windows need which start in a range.

        From the start of the first such window to the end of the last one; None if no window starts
        in the range.

        Args:
            since: Start of the range, inclusive.
            until: End of the range, exclusive.
        """
        first, after = self._start_from(to_us(since)), self._start_from(to_us(until))
        if first == after:
            return None
        return Interval(_moment(first), _moment(after - self.slide_us + self.length_us))

    def touched_by(self, since: datetime, until: datetime) -> Interval:
        """Return the starts of the windows that have event times of a range: the first, the end.

        Args:
            since: Start of the range, inclusive.
            until: End of the range, exclusive.
        """
        return Interval(_moment(self._start_from(to_us(since) - self.length_us + 1)), until)

    def latest_until(self, final: datetime) -> datetime:
        """Return the latest exclusive end of a range of which all windows have ended by a time.

        Args:
            final: The time; a window that ends exactly then has ended.
        """
        return _moment(self._start_from(to_us(final) - self.length_us + 1))

    def in_column(self, since: datetime, until: datetime) -> Interval:
        """Return which values :attr:`column` has for the windows that start in a range.

        Args:
            since: Start of the range, inclusive.
            until: End of the range, exclusive.
        """
        later = timedelta(microseconds=self.length_us if self.holds == "end" else 0)
        return Interval(since + later, until + later)

    def _start_from(self, time_us: int) -> int:
        """Return the first start at or after a time, both in microseconds."""
        return time_us + (self.offset_us - time_us) % self.slide_us


def _moment(time_us: int) -> datetime:
    # A range since the year 1 may begin within a window that has begun before.
    return EPOCH + timedelta(microseconds=max(time_us, _EARLIEST_US))
