"""Schedules in a pipeline's file: when something is done to its table again and again."""

from __future__ import annotations

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

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
    """Schedule of what Dagster does to the table.

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
