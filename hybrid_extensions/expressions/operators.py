"""Arithmetic, comparison, AND and OR as in Spark: common type, overflow, division by zero."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from hybrid_extensions.expressions.casts import cast
from hybrid_extensions.expressions.values import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    NULL,
    STRING,
    Value,
    decimal_of,
    duck,
    is_number,
    result_value,
    strict_value,
    unproven,
)
from sources.common.schema import TIMESTAMP

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
}
# Of DuckDB's decimals, which add a digit of their own.
_MOST_DIGITS = 37
_UNITS = {"DAY": 86_400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
# A span of a hundred years at most.
_LONGEST_S = 3_200_000_000


def common_type(what: str, values: Sequence[Value]) -> pa.DataType:
    """Return the type to which Spark converts operands before it compares or combines them.

    Args:
        what: The operator or function, for messages.
        values: The operands; a literal null fits any type. Without others it is ``NULL``.

    Raises:
        UnprovenError: Spark's conversion of such types is not proven.
    """
    found = NULL
    for value in values:
        found = _wider(found, value, what, values)
    return found


def _wider(found: pa.DataType, value: Value, what: str, values: Sequence[Value]) -> pa.DataType:
    kind = value.type
    if found in (kind, NULL):
        return kind
    if kind == NULL:
        return found
    if found in INTEGERS and kind in INTEGERS:
        return max(found, kind, key=INTEGERS.index)
    if {found, kind} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if DOUBLE in (found, kind):
        single = kind if found == DOUBLE else found
        if single == FLOAT or decimal_of(Value("", single)) is not None:
            return DOUBLE
    one, other = decimal_of(Value("", found)), decimal_of(Value("", kind))
    if one is not None and other is not None:
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        if digits <= _MOST_DIGITS:
            return pa.decimal128(digits, scale)
    raise unproven(what, values)


def in_common_type(what: str, values: Sequence[Value]) -> list[Value]:
    """Return operands, each cast to the type that Spark converts them to.

    In their order. A literal text next to a date or a timestamp is read as one.

    Args:
        what: The operator or function, for messages.
        values: The operands.

    Raises:
        UnprovenError: There is no proven common type or cast.
    """
    times = [each.type for each in values if each.type in (DATE, TIMESTAMP)]
    if times:
        # A literal text next to a time stands for a time.
        values = [
            cast(each, times[0]) if each.type == STRING and each.text is not None else each
            for each in values
        ]
    kind = common_type(what, values)
    return [cast(each, kind) for each in values]


def comparison(sign: str, left: Value, right: Value) -> Value:
    """Translate the comparison of two values, after a cast to their common type.

    Args:
        sign: Operator of DuckDB, such as ``<=`` or ``IS DISTINCT FROM``.
        left: First operand.
        right: Second operand.

    Raises:
        UnprovenError: The types can't be compared in a proven way.
    """
    one, other = in_common_type(sign, [left, right])
    duck(one.type)
    sql = f"{one.sql} {sign} {other.sql}"
    if "DISTINCT" in sign:
        return result_value(sql, BOOLEAN, [one, other])
    return strict_value(sql, BOOLEAN, [one, other])


def logic(word: str, operands: Sequence[Value]) -> Value:
    """Translate operands combined by ``AND`` or ``OR``.

    If the first operand decides, Spark does not evaluate the second, which therefore can't fail;
    DuckDB evaluates all, so the SQL is put into a CASE where needed.

    Args:
        word: ``AND`` or ``OR``.
        operands: The operands, booleans.

    Raises:
        UnprovenError: An operand is no boolean.
    """
    if any(each.type not in (BOOLEAN, NULL) for each in operands):
        raise unproven(word, operands)
    sql = f" {word} ".join(each.sql for each in operands)
    if any(each.may_fail for each in operands[1:]):
        test, result = ("IS FALSE", "false") if word == "AND" else ("IS TRUE", "true")
        cases = " ".join(f"WHEN {each.sql} {test} THEN {result}" for each in operands[:-1])
        sql = f"CASE {cases} ELSE {sql} END"
    return result_value(sql, BOOLEAN, operands)


def negation(value: Value) -> Value:
    """Translate a number with the other sign; an overflow fails, as in Spark.

    Raises:
        UnprovenError: The value is no number.
    """
    if value.type in INTEGERS or value.type in (DOUBLE, FLOAT) or pa.types.is_decimal(value.type):
        sql = f"CAST(-{value.sql} AS {duck(value.type)})"
        return result_value(sql, value.type, [value], fails=True)
    raise unproven("-", [value])


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    """Translate two numbers combined by an operator.

    An overflow and a division by zero fail, as in Spark.

    Args:
        sign: ``+``, ``-``, ``*``, ``/``, ``div`` or ``%``.
        left: First operand.
        right: Second operand.

    Raises:
        UnprovenError: An operand is no number, or the combination of types is not proven.
    """
    values = [left, right]
    if not (is_number(left.type) and is_number(right.type)):
        raise unproven(sign, values)
    if all(each.type in INTEGERS for each in values) and sign != "/":
        return _of_integers(sign, left, right)
    if DOUBLE in (left.type, right.type) or (
        sign == "/" and all(each.type in INTEGERS for each in values)
    ):
        if sign == "div" or FLOAT in (left.type, right.type):
            raise unproven(sign, values)
        one, other = cast(left, DOUBLE), cast(right, DOUBLE)
        return _guarded(sign, f"{one.sql} {sign} {other.sql}", DOUBLE, [one, other])
    return _of_decimals(sign, left, right)


def _of_integers(sign: str, left: Value, right: Value) -> Value:
    kind = common_type(sign, [left, right])
    if sign == "div":
        kind = pa.int64()
    one, other = cast(left, kind), cast(right, kind)
    sql = f"{one.sql} {'//' if sign == 'div' else sign} {other.sql}"
    return _guarded(sign, f"CAST({sql} AS {duck(kind)})", kind, [one, other])


def _guarded(sign: str, sql: str, kind: pa.DataType, values: Sequence[Value]) -> Value:
    if sign in ("/", "div", "%"):
        one, other = values
        fails = f"{one.sql} IS NOT NULL AND {other.sql} = 0"
        sql = f"CASE WHEN {fails} THEN error('division by zero' || {_empty(other)}) ELSE {sql} END"
        # Spark looks at the divisor first.
        values = [other, one]
    return strict_value(sql, kind, values, fails=True)


def _empty(value: Value) -> str:
    # A constant would fail before any row is looked at.
    return f"left(CAST({value.sql} AS VARCHAR), 0)"


def _of_decimals(sign: str, left: Value, right: Value) -> Value:
    values = [left, right]
    one, other = decimal_of(left), decimal_of(right)
    if one is None or other is None or sign not in ("+", "-", "*"):
        raise unproven(sign, values)
    if sign == "*":
        digits, scale = one.precision + other.precision + 1, one.scale + other.scale
    else:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        digits = whole + scale + 1
    if digits > _MOST_DIGITS:
        raise unproven(sign, values)
    kind = pa.decimal128(digits, scale)
    if sign == "*":
        parts = [cast(left, one), cast(right, other)]
    else:
        parts = [cast(left, kind), cast(right, kind)]
    sql = f"CAST({parts[0].sql} {sign} {parts[1].sql} AS {duck(kind)})"
    return strict_value(sql, kind, parts, fails=True)


def shifted_time(sign: str, time: Value, count: str, unit: str) -> Value:
    """Translate a timestamp plus or minus an interval of days, hours, minutes or seconds.

    Args:
        sign: ``+`` or ``-``.
        time: The timestamp, or a date, whose day begins in UTC.
        count: The number of units, as it is written.
        unit: The unit, such as ``HOUR``.

    Raises:
        UnprovenError: It is another unit, no whole number, or too long.
    """
    name, what = unit.upper().removesuffix("S"), f"{sign} INTERVAL {count} {unit}"
    digits = count.removeprefix("-")
    is_date = time.type == DATE and name != "DAY"
    if (
        name not in _UNITS
        or not digits.isascii()
        or not digits.isdigit()
        or (time.type != TIMESTAMP and not is_date)
    ):
        raise unproven(what, [time])
    seconds = int(count) * _UNITS[name]
    if abs(seconds) > _LONGEST_S:
        raise unproven(what, [time])
    at = cast(time, TIMESTAMP)
    micros = f"epoch_us({at.sql}) {sign} CAST({seconds * 1_000_000} AS BIGINT)"
    return result_value(f"make_timestamptz({micros})", TIMESTAMP, [at], fails=True)
