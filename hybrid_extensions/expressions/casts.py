"""Which casts mean the same in Spark and DuckDB: numbers, decimals, booleans, dates, timestamps."""

from __future__ import annotations

import pyarrow as pa

from hybrid_extensions.expressions.instants import (
    FIRST_DAY,
    LAST_DAY,
    floor_div,
    instant,
    of_unit,
    wall_clock,
    within_years,
)
from hybrid_extensions.expressions.text_casts import from_text
from hybrid_extensions.expressions.values import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    NULL,
    STRING,
    UnprovenError,
    Value,
    duck,
    result_value,
    spark_name,
    undecided,
)
from sources.common.schema import TIMESTAMP

_SECOND = 1_000_000
# Beyond, Spark's number of microseconds would be cut to the largest one.
_MOST_SECONDS = 9_000_000_000_000
_MOST_DIGITS = 38
# As many digits as a double holds exactly.
_EXACT_DIGITS = 15


def cast(value: Value, target: pa.DataType, *, is_try: bool = False) -> Value:
    """Translate a cast of a value to a type; the value itself if it has the type already.

    Args:
        value: The value.
        target: The type.
        is_try: Whether a value that does not fit becomes null (``try_cast``) instead of an error.

    Raises:
        UnprovenError: The cast is not proven to give the same in Spark and DuckDB.
    """
    source = value.type
    if source == target:
        return Value(value.sql, target, may_fail=value.may_fail)
    if source == NULL:
        return Value(f"CAST(NULL AS {duck(target)})", target)
    how = "TRY_CAST" if is_try else "CAST"
    if source == STRING:
        return from_text(value, target, is_try=is_try)
    sql = _from_number(value, target, how)
    if sql is None:
        sql = _from_time(value, target, how)
    if sql is None and source == BINARY and target == STRING:
        # Of bytes that are not UTF-8, Spark makes a text nevertheless.
        sql = f"decode({value.sql})"
    if sql is None:
        message = f"a cast from {spark_name(source)} to {spark_name(target)}"
        raise UnprovenError(message)
    return result_value(
        sql, target, [value], fails=not is_try or source == BINARY or "error(" in sql
    )


def _decided(condition: str, sql: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {sql} ELSE {undecided(value)} END"


def _from_number(value: Value, target: pa.DataType, how: str) -> str | None:
    """Return SQL for a number or a boolean in another type; None if the cast is not proven."""
    source, sql = value.type, value.sql
    is_whole, is_decimal = source in INTEGERS, pa.types.is_decimal(source)
    if source == BOOLEAN:
        if target in INTEGERS or target == DOUBLE:
            return f"CAST(CAST({sql} AS INTEGER) AS {duck(target)})"
        return (
            f"CASE WHEN {sql} THEN 'true' WHEN NOT {sql} THEN 'false' END"
            if (target == STRING)
            else None
        )
    if target == BOOLEAN and (is_whole or is_decimal or source == DOUBLE):
        return f"{sql} <> 0"
    if is_whole or (is_decimal and source.scale == 0 and source.precision <= _EXACT_DIGITS):
        if target in INTEGERS or target == DOUBLE or pa.types.is_decimal(target):
            return f"{how}({sql} AS {duck(target)})"
        if target == STRING:
            return f"CAST({sql} AS VARCHAR)"
        if target == TIMESTAMP and is_whole:
            seconds = f"CAST({sql} AS BIGINT)"
            is_in_range = f"{sql} IS NULL OR {seconds} BETWEEN {-_MOST_SECONDS} AND {_MOST_SECONDS}"
            return _decided(is_in_range, of_unit(seconds, _SECOND), sql)
        return None
    if is_decimal:
        return _from_decimal(sql, source, target, how)
    if source == DOUBLE and target in INTEGERS:
        # Spark cuts the fraction off, DuckDB rounds; at the very end Spark takes the largest.
        whole = f"{how}(trunc({sql}) AS {duck(target)})"
        if target == BIGINT:
            return _decided(f"{sql} IS NULL OR {sql} <> 9223372036854775808.0::DOUBLE", whole, sql)
        return whole
    if source == FLOAT and target == DOUBLE:
        return f"CAST({sql} AS DOUBLE)"
    return None


def _from_decimal(sql: str, source: pa.DataType, target: pa.DataType, how: str) -> str | None:
    if target in INTEGERS:
        return f"{how}(trunc({sql}) AS {duck(target)})"
    if pa.types.is_decimal(target):
        return f"{how}({sql} AS {duck(target)})"
    if target == STRING:
        if source.precision > source.scale:
            return f"CAST({sql} AS VARCHAR)"
        # Without a digit before the point DuckDB writes `.5`; a wider decimal has one.
        wider = pa.decimal128(source.precision + 1, source.scale)
        is_short = source.precision < _MOST_DIGITS
        return f"CAST(CAST({sql} AS {duck(wider)}) AS VARCHAR)" if is_short else None
    if target == DOUBLE and source.precision <= _EXACT_DIGITS:
        return f"CAST({sql} AS DOUBLE)"
    return None


def _from_time(value: Value, target: pa.DataType, how: str) -> str | None:
    """Return SQL for a date or a timestamp in another type; None if the cast is not proven."""
    source, sql = value.type, value.sql
    if source == DATE:
        if target == TIMESTAMP:
            return instant(f"CAST({sql} AS TIMESTAMP)")
        if target == STRING:
            is_usual = f"{sql} IS NULL OR {sql} BETWEEN {FIRST_DAY} AND {LAST_DAY}"
            return _decided(is_usual, f"CAST({sql} AS VARCHAR)", sql)
    if source == TIMESTAMP:
        if target == DATE:
            return f"CAST({wall_clock(sql)} AS DATE)"
        if target == STRING:
            is_usual = f"{sql} IS NULL OR ({within_years(sql)})"
            return _decided(is_usual, f"CAST({wall_clock(sql)} AS VARCHAR)", sql)
        if target in INTEGERS:
            return f"{how}({floor_div(f'epoch_us({sql})', _SECOND)} AS {duck(target)})"
        if target == DOUBLE:
            return f"CAST(epoch_us({sql}) AS DOUBLE) / CAST({_SECOND} AS DOUBLE)"
    return None
