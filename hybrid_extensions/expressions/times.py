"""Which functions of dates and times mean the same in Spark and DuckDB, in UTC: `date_trunc`."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid_extensions.expressions.casts import cast
from hybrid_extensions.expressions.formats import time_format
from hybrid_extensions.expressions.instants import (
    floor_div,
    instant,
    of_unit,
    wall_clock,
    within_years,
)
from hybrid_extensions.expressions.texts import Function
from hybrid_extensions.expressions.values import (
    BIGINT,
    DATE,
    INT,
    INTEGERS,
    STRING,
    Value,
    result_value,
    strict_value,
    undecided,
    unproven,
)
from sources.common.schema import TIMESTAMP
from sources.common.sql.sql_names import literal

_TRUNCATED = {
    "year": "year", "yyyy": "year", "yy": "year",
    "quarter": "quarter",
    "month": "month", "mm": "month", "mon": "month",
    "week": "week",
}  # fmt: skip
_TRUNCATED_TIMES = {
    **_TRUNCATED, "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
_MOST_DAYS = 4_000_000
_MOST_MICROS = 9_200_000_000_000_000_000


def _of_day(sql: str) -> Function:
    """Return a function from a date, or from the date of a timestamp, to an integer.

    Args:
        sql: SQL with ``{}`` for the date.
    """

    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) != 1 or values[0].type not in (DATE, TIMESTAMP):
            raise unproven(name, values)
        day = cast(values[0], DATE)
        return result_value(f"CAST({sql.format(day.sql)} AS INTEGER)", INT, [day])

    return of


def _of_time(part: str) -> Function:
    """Return a function from a timestamp to a part of its time of day."""

    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) != 1 or values[0].type != TIMESTAMP:
            raise unproven(name, values)
        return result_value(f"CAST({part}({wall_clock(values[0].sql)}) AS INTEGER)", INT, values)

    return of


def _of_epoch(unit_us: int) -> Function:
    """Return a function from a timestamp to a number of units since 1970, rounded down."""

    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) != 1 or values[0].type != TIMESTAMP:
            raise unproven(name, values)
        return result_value(floor_div(f"epoch_us({values[0].sql})", unit_us), BIGINT, values)

    return of


def _to_instant(unit_us: int) -> Function:
    """Return a function from a whole number of units since 1970 to a timestamp."""

    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) != 1 or values[0].type not in INTEGERS:
            raise unproven(name, values)
        number = f"CAST({values[0].sql} AS BIGINT)"
        # DuckDB's timestamps end a little earlier than Spark's.
        most = _MOST_MICROS // unit_us
        is_usual = f"{number} IS NULL OR {number} BETWEEN {-most} AND {most}"
        found = of_unit(number, unit_us)
        sql = f"CASE WHEN {is_usual} THEN {found} ELSE {undecided(number)} END"
        return result_value(sql, TIMESTAMP, values, fails=True)

    return of


def _parsed(kind: str) -> Function:
    """Return ``to_timestamp`` or ``to_date``, of a text or a time, with a pattern or without."""

    def of(name: str, values: Sequence[Value]) -> Value:
        target = TIMESTAMP if kind == "timestamp" else DATE
        if len(values) == 1 and values[0].type in (STRING, DATE, TIMESTAMP):
            return cast(values[0], target)
        pattern = time_format(values[1].text or "") if len(values) == 2 else None
        if pattern is None or values[0].type != STRING:
            raise unproven(name, values)
        text = values[0].sql
        usual = (
            f"regexp_replace({text}, {literal(f'^{pattern.form}$')}, {literal(pattern.instant)})"
        )
        at = f"make_timestamptz(epoch_us(CAST({usual} AS TIMESTAMP)))"
        is_usual = f"{text} IS NULL OR regexp_full_match({text}, {literal(pattern.form)})"
        sql = f"CASE WHEN {is_usual} THEN {at} ELSE {undecided(text)} END"
        return cast(result_value(sql, TIMESTAMP, values, fails=True), target)

    return of


def _date_format(name: str, values: Sequence[Value]) -> Value:
    pattern = time_format(values[1].text or "") if len(values) == 2 else None
    if pattern is None or values[0].type not in (DATE, TIMESTAMP):
        raise unproven(name, values)
    at = cast(values[0], TIMESTAMP)
    shown = f"strftime({wall_clock(at.sql)}, {literal(pattern.strftime)})"
    is_usual = f"{at.sql} IS NULL OR ({within_years(at.sql)})"
    sql = f"CASE WHEN {is_usual} THEN {shown} ELSE {undecided(at.sql)} END"
    return result_value(sql, STRING, [at], fails=True)


def _date_trunc(name: str, values: Sequence[Value]) -> Value:
    unit = _TRUNCATED_TIMES.get((values[0].text or "").lower()) if len(values) == 2 else None
    if unit is None or values[1].type not in (DATE, TIMESTAMP):
        raise unproven(name, values)
    at = cast(values[1], TIMESTAMP)
    sql = instant(f"CAST(date_trunc('{unit}', {wall_clock(at.sql)}) AS TIMESTAMP)")
    return result_value(sql, TIMESTAMP, [at])


def _trunc(name: str, values: Sequence[Value]) -> Value:
    unit = _TRUNCATED.get((values[1].text or "").lower()) if len(values) == 2 else None
    if unit is None or values[0].type not in (DATE, TIMESTAMP):
        raise unproven(name, values)
    day = cast(values[0], DATE)
    return result_value(f"CAST(date_trunc('{unit}', {day.sql}) AS DATE)", DATE, [day])


def _shifted(sign: str) -> Function:
    """Return a function that adds a number of days to a date, or subtracts it."""

    def of(name: str, values: Sequence[Value]) -> Value:
        if (
            len(values) != 2
            or values[0].type not in (DATE, TIMESTAMP)
            or values[1].type not in INTEGERS[:3]
        ):
            raise unproven(name, values)
        day, count = cast(values[0], DATE), values[1].sql
        is_usual = f"{count} IS NULL OR abs(CAST({count} AS BIGINT)) < {_MOST_DAYS}"
        moved = f"{day.sql} {sign} CAST({count} AS INTEGER)"
        sql = f"CASE WHEN {is_usual} THEN {moved} ELSE {undecided(count)} END"
        return strict_value(sql, DATE, [day, values[1]], fails=True)

    return of


def _datediff(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 2 or any(each.type not in (DATE, TIMESTAMP) for each in values):
        raise unproven(name, values)
    end, start = (cast(each, DATE) for each in values)
    return strict_value(f"CAST({end.sql} - {start.sql} AS INTEGER)", INT, [end, start])


def _last_day(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 1 or values[0].type not in (DATE, TIMESTAMP):
        raise unproven(name, values)
    day = cast(values[0], DATE)
    return result_value(f"CAST(last_day({day.sql}) AS DATE)", DATE, [day])


TIMES: dict[str, Function] = {
    "year": _of_day("year({})"),
    "quarter": _of_day("quarter({})"),
    "month": _of_day("month({})"),
    "day": _of_day("day({})"),
    "dayofmonth": _of_day("day({})"),
    "dayofyear": _of_day("dayofyear({})"),
    "weekofyear": _of_day("week({})"),
    # Spark counts from Sunday as 1, DuckDB from Sunday as 0.
    "dayofweek": _of_day("dayofweek({}) + 1"),
    # Spark counts from Monday as 0, ISO from Monday as 1.
    "weekday": _of_day("isodow({}) - 1"),
    "hour": _of_time("hour"),
    "minute": _of_time("minute"),
    "second": _of_time("second"),
    "unix_micros": _of_epoch(1),
    "unix_millis": _of_epoch(1000),
    "unix_seconds": _of_epoch(1_000_000),
    "unix_date": _of_day("({} - DATE '1970-01-01')"),
    "timestamp_micros": _to_instant(1),
    "timestamp_millis": _to_instant(1000),
    "timestamp_seconds": _to_instant(1_000_000),
    "to_timestamp": _parsed("timestamp"),
    "to_date": _parsed("date"),
    "date_format": _date_format,
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_add": _shifted("+"),
    "date_sub": _shifted("-"),
    "datediff": _datediff,
    "date_diff": _datediff,
    "last_day": _last_day,
}
"""Functions of dates and timestamps by their names in Spark."""
