"""Declaration of the event time: its column, which times count, and what happens to others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import model_validator

from sources.common.durations import DAY_MS
from sources.common.fields import Declared, Instant, or_text
from sources.common.times import to_ms


def _end_of_next_day_ms(clock_ms: int) -> int:
    """Return the last millisecond of the day after that of a clock, in UTC.

    It is the highest event time that counts if ``not_after`` is not declared. Whole days, so that
    the micro-batches of a day have the same bounds: Spark compiles a query's code again whenever a
    number in it has changed.

    Args:
        clock_ms: The clock, in Unix milliseconds.
    """
    return (clock_ms // DAY_MS + 2) * DAY_MS - 1


class EventTime(Declared):
    """Event time of the rows: its column, and the times that count. A column's name is enough.

    Clocks of devices may be wrong by decades, and one such row would move the end of history, the
    watermark and the seam. Therefore a time outside of the bounds never moves any of them.

    Attributes:
        column: Timestamp column with the time at which a row's event happened, in all sources.
        not_before: Lowest event time that counts.
        not_after: Highest event time that counts. By default the end of the day after that of the
            clock, in UTC: the clock of the plan for files, of each micro-batch for a topic, and for
            a topic with ``until`` the time at which its range of offsets was decided.
        outside: What happens to a row whose event time does not count: ``fail`` refuses it and
            names its place; ``drop`` leaves it out, counts it, and writes its place and the reason
            to the quarantine table of its source; ``quarantine`` writes its bytes there, too;
            ``keep`` reads it like any other row, which is allowed only if the transform does not
            use the event time as a watermark.

    """

    column: str
    not_before: Instant = datetime(1980, 1, 1, tzinfo=UTC)
    not_after: Instant | None = None
    outside: Literal["fail", "drop", "quarantine", "keep"] = "fail"

    def bounds_ms(self, clock_ms: int) -> tuple[int, int]:
        """Return the lowest and highest event time that count, both inclusive, in milliseconds.

        Args:
            clock_ms: The clock at which ``not_after`` is measured if it is not declared, in Unix
                milliseconds: that of the plan for files, that of the micro-batch for a topic, or
                of its range if it has ``until``.
        """
        high_ms = _end_of_next_day_ms(clock_ms)
        return to_ms(self.not_before), high_ms if self.not_after is None else to_ms(self.not_after)

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> EventTime:
        if self.not_after is not None and self.not_after <= self.not_before:
            message = (
                f"`event_time.not_after` is {self.not_after.isoformat()}, which is not after "
                f"`event_time.not_before`, {self.not_before.isoformat()}: no row would count. "
                "Correct one of them; without `not_before` it is 1980-01-01T00:00:00Z."
            )
            raise ValueError(message)
        return self


DeclaredEventTime = Annotated[EventTime, or_text(EventTime, "column")]
"""An :class:`EventTime`, or the name of its column."""
