"""Times as integers: Unix milliseconds and microseconds, in UTC, and how messages print them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Begin of Unix time."""
_MS = timedelta(milliseconds=1)


def now_ms() -> int:
    """Return the current time in Unix milliseconds, by the clock of this machine."""
    return time.time_ns() // 1_000_000


def to_ms(moment: datetime) -> int:
    """Return a time in Unix milliseconds, rounded down.

    Raises:
        TypeError: The time has no time zone.
    """
    return (moment - EPOCH) // _MS


def to_us(moment: datetime) -> int:
    """Return a time in Unix microseconds, exactly.

    Raises:
        TypeError: The time has no time zone.
    """
    return (moment - EPOCH) // timedelta(microseconds=1)


def bounds_us(low_ms: int, high_ms: int) -> tuple[int, int]:
    """Convert inclusive bounds of time from milliseconds to microseconds.

    The upper one becomes the last microsecond of its millisecond.

    Args:
        low_ms: Lowest time, in Unix milliseconds.
        high_ms: Highest time, in Unix milliseconds.
    """
    return low_ms * 1000, high_ms * 1000 + 999


def iso(time_ms: int) -> str:
    """Return Unix milliseconds as text in UTC, such as ``2013-09-30T23:59:00Z``.

    A time beyond the year 9999, as a wrong clock may produce, is returned as ``<number> ms``.
    """
    try:
        moment = EPOCH + time_ms * _MS
    except OverflowError:
        return f"{time_ms} ms"
    spec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")
