"""Timestamps in DuckDB's SQL, as numbers of microseconds, without the time zones of its ICU."""

from __future__ import annotations

# Years 1 to 9999, in which both engines write a date with four digits of a year.
FIRST_US, END_US = -62_135_596_800_000_000, 253_402_300_800_000_000
FIRST_DAY, LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"


def wall_clock(instant: str) -> str:
    """Return SQL for the date and time of day of a timestamp in UTC."""
    return f"make_timestamp(epoch_us({instant}))"


def instant(wall: str) -> str:
    """Return SQL for the timestamp with a date and time of day in UTC."""
    return f"make_timestamptz(epoch_us({wall}))"


def floor_div(number: str, divisor: int) -> str:
    """Return SQL for a BIGINT divided by a positive number, rounded down."""
    if divisor == 1:
        return number
    return f"(({number} - (({number} % {divisor}) + {divisor}) % {divisor}) // {divisor})"


def of_unit(number: str, unit_us: int) -> str:
    """Return SQL for a timestamp from a number of units since 1970; an overflow fails."""
    return f"make_timestamptz(CAST({number} AS BIGINT) * CAST({unit_us} AS BIGINT))"


def within_years(instant: str) -> str:
    """Return an SQL condition that a timestamp is in the years 1 to 9999."""
    return f"epoch_us({instant}) >= {FIRST_US} AND epoch_us({instant}) < {END_US}"
