"""Display of numbers, sizes, estimates (rounded up) and UTC times: ``1.2 M``, ``4 min ago``."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime

from humanize import metric, naturalsize

from sources.common.durations import duration
from spark_jobs.run_state.requested_state import RequestedState, in_words

_LONG_AGO_MS = 2 * 86_400_000
_SECOND_MS = 1000
_MINUTE_MS = 60_000
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def count(number: float) -> str:
    """Return a count: in full below 10,000, else with three digits, ``1.23 M``."""
    return f"{number:,.0f}" if abs(number) < 10_000 else metric(number)


def size(number: float) -> str:
    """Return a size in bytes in decimal units, such as ``6.4 MB``."""
    return naturalsize(number)


def time_left(seconds: float) -> str:
    """Return how long the rest takes, such as ``3 min``; ``none`` for 0 seconds."""
    return duration(seconds) if seconds else "none"


def estimated_duration(seconds: float) -> str:
    """Return an estimated duration as text, rounded up: ``30 s`` for 21 s, ``4 min`` for 200 s.

    To 10 s below a minute, to minutes below an hour, to 10 min below ten hours, then to hours. It
    is 10 s at least.

    Args:
        seconds: The estimate.
    """
    for step, below in ((10, 60), (60, 3_600), (600, 36_000), (3_600, 172_800)):
        rounded = max(math.ceil(seconds / step), 1) * step
        if rounded < below:
            return duration(rounded)
    return duration(math.ceil(seconds / 3_600) * 3_600)


def ago(then_ms: int, now_ms: int) -> str:
    """Return how long ago a time was, such as ``4 min ago``; its date if days ago.

    ``now`` below a second, and for a time to come.

    Args:
        then_ms: When it was, in ms since 1970.
        now_ms: The present, in ms since 1970.
    """
    passed_ms = now_ms - then_ms
    if passed_ms >= _LONG_AGO_MS:
        return day(then_ms)
    return "now" if passed_ms < _SECOND_MS else f"{duration(passed_ms / 1000, units=1)} ago"


def day(ms: int) -> str:
    """Return the day of a time in ms since 1970, in UTC, such as ``30 Dec 2013``."""
    at = _utc(ms)
    return f"{at.day} {at:%b %Y}"


def moment(ms: int) -> str:
    """Return a time in ms since 1970, in UTC and to the minute, such as ``29 Sep 2013 23:56``."""
    return f"{day(ms)} {_utc(ms):%H:%M}"


def ended_in_words(requested: RequestedState) -> str:
    """Return since when people have paused or stopped a live run, by whom and why: a sentence.

    The time is in UTC, to the minute; who and why are left out if unknown. Must not be called with
    a state that is requested.
    """
    by = f" by {requested.by}" if requested.by else ""
    why = f" ({requested.why})" if requested.why else ""
    return (
        f"The live run has been {in_words(requested)} since {moment(requested.at_ms)} UTC{by}{why}."
    )


def second(ms: int) -> str:
    """Return a time in ms since 1970 to the second, such as ``29 Sep 2013 23:56:04 UTC``.

    Milliseconds follow the seconds if there are any.
    """
    rest = ms % _SECOND_MS
    return f"{moment(ms)}:{_utc(ms):%S}{f'.{rest:03}' if rest else ''} UTC"


def whole_second(ms: int) -> str:
    """Return a time in ms since 1970 as :func:`second` does, its milliseconds left out."""
    return second(ms // 1000 * 1000)


def exact(at: date) -> str:
    """Return a date, or a time to the microsecond: ``29 Sep 2013``, ``29 Sep 2013 23:56:04.5 UTC``.

    Args:
        at: The date; or the time, in UTC, or without a zone, which is then not named.
    """
    text = f"{at.day} {at:%b} {at.year}"
    if not isinstance(at, datetime):
        return text
    rest = f".{at.microsecond:06}".rstrip("0").rstrip(".")
    return f"{text} {at:%H:%M:%S}{rest}{'' if at.tzinfo is None else ' UTC'}"


def readable_times(text: str) -> str:
    """Return a text with its ISO times (``2013-09-29T23:56:00Z``) as ``29 Sep 2013 23:56 UTC``.

    For reasons of positions, which the state folder keeps with ISO times. Text without one is
    returned unchanged.
    """
    return _ISO.sub(_readable, text)


def _readable(found: re.Match[str]) -> str:
    ms = round(datetime.fromisoformat(found[0]).timestamp() * 1000)
    return second(ms) if ms % _MINUTE_MS else f"{moment(ms)} UTC"


def span(from_ms: int, to_ms: int) -> str:
    """Return the days from one time to another in UTC: ``1 Jan 2013 to 30 Sep 2013``.

    Both are in ms since 1970, and both days belong to the span; within one day it is that day.
    """
    first, last = day(from_ms), day(to_ms)
    return first if first == last else f"{first} to {last}"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters; a longer one is cut and ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
