"""Timestamps in DuckDB's SQL as microseconds in UTC: rounding down, overflow, years 1 to 9999."""

from __future__ import annotations

# Years 1 to 9999, in which both engines write a date with four digits of a year.
FIRST_US, END_US = -62_135_596_800_000_000, 253_402_300_800_000_000
FIRST_DAY, LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"


def wall_clock(instant: str) -> str:
    """Return DuckDB SQL that converts a timestamp to date and time of day in UTC (``TIMESTAMP``).

    Args:
        instant: SQL of the timestamp (``TIMESTAMPTZ``).
    """
    return f"make_timestamp(epoch_us({instant}))"


def instant(wall: str) -> str:
    """Return DuckDB SQL that converts date and time of day in UTC to a timestamp.

    Args:
        wall: SQL of the date and time (``TIMESTAMP``).
    """
    return f"make_timestamptz(epoch_us({wall}))"


def floor_div(number: str, divisor: int) -> str:
    """Return DuckDB SQL that divides a BIGINT by a positive number and rounds down.

    DuckDB's own division rounds negative numbers, as of times before 1970, towards zero.

    Args:
        number: SQL of the number.
        divisor: The positive number.
    """
    if divisor == 1:
        return number
    return f"(({number} - (({number} % {divisor}) + {divisor}) % {divisor}) // {divisor})"


def of_unit(number: str, unit_us: int) -> str:
    """Return DuckDB SQL that makes a timestamp of a number of units since 1970.

    It fails if the result overflows.

    Args:
        number: SQL of the number.
        unit_us: Length of a unit in microseconds.
    """
    return f"make_timestamptz(CAST({number} AS BIGINT) * CAST({unit_us} AS BIGINT))"


def within_years(instant: str) -> str:
    """Return a DuckDB condition that is true for timestamps of the years 1 to 9999.

    Only for these the results of Spark and DuckDB are proven to be equal.

    Args:
        instant: SQL of the timestamp.
    """
    return f"epoch_us({instant}) >= {FIRST_US} AND epoch_us({instant}) < {END_US}"
