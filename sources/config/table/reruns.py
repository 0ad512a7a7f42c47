"""Scheduled reruns: a pipeline's table is rebuilt as a new generation."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from sources.common.fields import Declared, Name

_FIELD = r"[\d*/,\-A-Za-z#?]+"
_CRON = re.compile(rf"{_FIELD}( {_FIELD}){{4}}|@(hourly|daily|weekly|monthly|yearly)")


def _cron(value: str) -> str:
    if not _CRON.fullmatch(value):
        message = (
            f"`{value}` is not a cron expression of five fields (minute, hour, day, month, day of "
            "the week). Write one such as `0 3 * * *`, which means every night at three."
        )
        raise ValueError(message)
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = (
            f"`{value}` is not a time zone of the IANA database. Write one such as "
            "`Europe/Berlin` or `UTC`."
        )
        raise ValueError(message) from None
    return value


class Schedule(Declared):
    """Schedule of a rerun.

    Missed ticks are made up for once; a tick during the previous run is skipped.

    Attributes:
        name: Name of the schedule.
        cron: Cron expression with five fields, such as ``0 3 * * *`` for every night at three.
        timezone: Time zone of the expression, such as ``Europe/Berlin``.

    """

    name: Name
    cron: Annotated[str, AfterValidator(_cron)]
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @property
    def text(self) -> str:
        """Description of the schedule for display: the first paragraph of the class."""
        return " ".join((type(self).__doc__ or "").partition("\n\n")[0].split())


class Rerun(Schedule):
    """Scheduled rebuild of the whole table as a new generation, while the old one keeps serving.

    Attributes:
        promote: When readers get the new generation: ``checks`` once its hand-over passes its
            checks, its live run has caught up and is healthy, and it has enough rows
            (``rows_at_least``); ``never`` leaves the promotion to people.
        rows_at_least: Lowest ratio of the new generation's rows to those of the serving one, at
            which it is promoted; ``0.99`` tolerates one percent less.

    """

    promote: Literal["checks", "never"] = "checks"
    rows_at_least: float = Field(default=0.99, ge=0)

    @property
    def text(self) -> str:
        """Description of the rerun for display, and whether it is promoted without a person."""
        if self.promote == "never":
            return f"{super().text} It waits for a person, who promotes it."
        return (
            f"{super().text} Readers get it by itself once it has caught up, is healthy and has at "
            f"least {self.rows_at_least:.2%} of the rows (promote: checks)."
        )


class Generations(Declared):
    """Generations of the table: how many are kept, and when new ones are built.

    Attributes:
        keep: How many generations that served earlier are kept, so that they can be rolled back to.
        reruns: Schedules that rebuild the table as a new generation.

    """

    keep: int = Field(default=1, ge=0)
    reruns: list[Rerun] = Field(default_factory=list)
