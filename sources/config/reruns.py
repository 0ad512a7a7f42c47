"""Declared reruns: a pipeline's table, or its last ranges, made anew by the clock."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from sources.common.fields import Declared, Name

_FIELD = r"[\d*/,\-A-Za-z#?]+"
_CRON = re.compile(rf"{_FIELD}( {_FIELD}){{4}}|@(hourly|daily|weekly|monthly|yearly)")


def _cron(value: str) -> str:
    if not _CRON.fullmatch(value):
        message = f"`{value}` is no cron expression; write `0 3 * * *` for each night at three"
        raise ValueError(message)
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"`{value}` is no time zone; write one as `Europe/Berlin` or `UTC`"
        raise ValueError(message) from None
    return value


class Clock(Declared):
    """When something is done by itself.

    A tick that was missed is caught up once; one that comes while the last is under way is left
    out.

    Attributes:
        name: Of the schedule.
        cron: When, as five fields of cron.
        timezone: Where that time is meant.

    """

    name: Name
    cron: Annotated[str, AfterValidator(_cron)]
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"


class Rerun(Clock):
    """All of history is read anew by the clock, into a new generation beside the one that serves.

    Attributes:
        name, cron, timezone: When; as for a range.
        promote: ``checks``: readers get the new generation if its hand-over is sound, its live run
            has caught up and is healthy, and it has no fewer rows than ``rows_at_least``;
            ``never``: it waits for people.
        rows_at_least: Rows of the new generation over rows of the one that serves.

    """

    promote: Literal["checks", "never"] = "checks"
    rows_at_least: float = Field(default=0.99, ge=0)


class RangeRerun(Clock):
    """The last ranges that history holds whole are made anew by the clock.

    Attributes:
        name, cron, timezone: When.
        last: How many ranges.

    """

    last: PositiveInt = 1


class Ranges(Declared):
    """The target's ranges of event time that are made anew one by one.

    Attributes:
        by: How long one is, UTC.
        start: The first one begins here.
        end: The last one ends before this; if left out, there are more as time goes by.
        reruns: When the last ones are made anew by themselves.

    """

    by: Literal["hour", "day", "month"] = "day"
    start: date
    end: date | None = None
    reruns: list[RangeRerun] = Field(default_factory=list)

    @model_validator(mode="after")
    def _holds_something(self) -> Ranges:
        if self.end is not None and self.start >= self.end:
            message = f"`end` {self.end} is not after `start` {self.start}"
            raise ValueError(message)
        return self


class Generations(Declared):
    """What becomes of generations.

    Attributes:
        keep: How many of those that served are kept, to go back to.
        reruns: When new ones are made by the clock.

    """

    keep: int = Field(default=1, ge=0)
    reruns: list[Rerun] = Field(default_factory=list)
