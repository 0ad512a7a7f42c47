"""Which texts of JSON are dates and times, in topics and in files, and which moment they mean.

In topics they mean what Spark's ``stringToTimestamp`` and ``stringToDate`` make of them.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sources.common.sql.sql_names import literal

_TIME = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})"
    r"(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(.*))?)?)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{1,2})|(\d\d))?", re.ASCII)
_DATE_OF_FILES = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?Z?)?", re.ASCII
)
_TIME_OF_FILES = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r"(Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
_MOST_SECONDS = 18 * 3600
_DAY_SECONDS = 24 * 3600
# A time without minutes, which Arrow reads in files.
_HOUR = r"^(\d{4}-\d\d-\d\d[ T]\d\d)(Z|[+-]\d\d(:?\d\d)?)?$"
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class TimeForms(NamedTuple):
    """Accepted forms of times in one kind of source: :data:`TIMES_OF_TOPICS` or of files.

    Attributes:
        date: Pattern of a date, whose groups are year, month and day.
        time: Pattern of a time, whose groups follow with hour, minute, second, fraction and zone.
        most_seconds: Largest offset of a zone from UTC, in seconds.
        clean: Returns a text without what is ignored around a time.
    """

    date: re.Pattern[str]
    time: re.Pattern[str]
    most_seconds: int
    clean: Callable[[str], str]


TIMES_OF_TOPICS = TimeForms(_DATE, _TIME, _MOST_SECONDS, str.strip)
TIMES_OF_FILES = TimeForms(_DATE_OF_FILES, _TIME_OF_FILES, _DAY_SECONDS, str)


def days_of(text: str, forms: TimeForms) -> int | None:
    """Return the days since 1970 of a date; None if the text has no such form or day.

    A month or day that is left out, where the form allows it, is the first.

    Args:
        text: The date, such as ``2024-01-31``.
        forms: Forms of the source.
    """
    if (found := forms.date.fullmatch(forms.clean(text))) is None:
        return None
    year, month, day = found.groups()
    return _days(int(year), int(month or 1), int(day or 1))


def micros_of(text: str, forms: TimeForms) -> int | None:
    """Return the microseconds since 1970 of a time; None if the text has no such form or time.

    A time without a zone is in UTC. Digits after the microseconds are cut off. None, too, for one
    beyond 64 bits.

    Args:
        text: The time, such as ``2024-01-31T12:00:00+01:00``.
        forms: Forms of the source.
    """
    if (found := forms.time.fullmatch(forms.clean(text))) is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    days = _days(year, month if found[2] else 1, day if found[3] else 1)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    local = f"{year:04}-{month or 1:02}-{day or 1:02}T{hour:02}:{minute:02}:{second:02}"
    offset = _offset((found[8] or "").strip(), local, forms.most_seconds)
    if offset is None:
        return None
    seconds = days * _DAY_SECONDS + hour * 3600 + minute * 60 + second - offset
    micros = seconds * 10**6 + int((found[7] or "")[:6].ljust(6, "0"))
    return micros if -(2**63) <= micros < 2**63 else None


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970 of a day in the Gregorian calendar; None if there is no such."""
    if not 1 <= month <= len(_MONTHS) or not 1 <= day <= _days_in(year, month):
        return None
    before = year - 1
    to_year = before * 365 + before // 4 - before // 100 + before // 400
    in_year = sum(_days_in(year, each) for each in range(1, month)) + day - 1
    return to_year + in_year - 719_162


def _days_in(year: int, month: int) -> int:
    return _MONTHS[month - 1] + (month == 2 and isleap(year))


def _offset(zone: str, local: str, most: int) -> int | None:
    """Return how far a zone is from UTC, in seconds; None if there is no such zone."""
    if zone in ("", "Z", "UTC", "GMT", "UT"):
        return 0
    if (found := _OFFSET.fullmatch(zone)) is not None:
        minutes = int(found[3] or found[4] or 0)
        away = int(found[2]) * 3600 + minutes * 60
        if minutes > 59 or away > most:
            return None
        return away if found[1] == "+" else -away
    try:
        offset = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (ValueError, OSError, KeyError):
        return None
    return None if offset is None else int(offset.total_seconds())


def with_minutes(text: str) -> str:
    """Return SQL for a text in which a time that ends with the hour gets ``:00``.

    Args:
        text: SQL of the text.
    """
    return f"regexp_replace({text}, {literal(_HOUR)}, '\\1:00\\2')"
