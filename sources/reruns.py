"""Declared reruns: a pipeline made anew by the clock, as another generation."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from sources.declared import Declared, Name

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


class Rerun(Declared):
    """All of history is read anew by the clock, into a new generation beside the one that serves.

    A tick that was missed is caught up once; one that comes while a rerun is under way is left out.

    Attributes:
        name: Of the schedule.
        cron: When, as five fields of cron.
        timezone: Where that time is meant.
        promote: ``checks``: readers get the new generation if its hand-over is sound, its live run
            has caught up and is healthy, and it has no fewer rows than ``rows_at_least``;
            ``never``: it waits for people.
        rows_at_least: Rows of the new generation over rows of the one that serves.

    """

    name: Name
    cron: Annotated[str, AfterValidator(_cron)]
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    promote: Literal["checks", "never"] = "checks"
    rows_at_least: float = Field(default=0.99, ge=0)


class Generations(Declared):
    """What becomes of generations.

    Attributes:
        keep: How many of those that served are kept, to go back to.
        reruns: When new ones are made by the clock.

    """

    keep: int = Field(default=1, ge=0)
    reruns: list[Rerun] = Field(default_factory=list)
