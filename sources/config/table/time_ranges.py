"""Declaration of ranges of time (hours, days, months in UTC) that are computed one by one."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import model_validator

from sources.common.fields import Declared


class TimeRanges(Declared):
    """Ranges of time of equal length, one after the other.

    Attributes:
        by: Length of a range, in UTC.
        start: First day of the first range, such as ``2024-01-01``.
        end: Day after the last range; by default ranges are added as time passes.
    """

    by: Literal["hour", "day", "month"] = "day"
    start: date
    end: date | None = None

    @model_validator(mode="after")
    def _holds_a_range(self) -> Self:
        if self.end is not None and self.start >= self.end:
            message = (
                f"`end: {self.end}` is not after `start: {self.start}`, so there is no range. "
                "Correct one of them, or remove `end` to add ranges as time passes."
            )
            raise ValueError(message)
        for field, day in (("start", self.start), ("end", self.end)):
            if self.by == "month" and day is not None and day.day != 1:
                message = (
                    f"`{field}: {day}` is within a month, and `by: month` has whole ones only. "
                    f"Write `{field}: {day.replace(day=1)}`, or the first of the next month."
                )
                raise ValueError(message)
        return self
