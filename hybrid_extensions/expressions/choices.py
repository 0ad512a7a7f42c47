"""CASE, `coalesce`, `if`, `greatest`, `abs`, `floor`, `round` and the like, as DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hybrid_extensions.expressions.operators import common_type, comparison, in_common_type
from hybrid_extensions.expressions.texts import Function
from hybrid_extensions.expressions.values import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGERS,
    NULL,
    Value,
    duck,
    result_value,
    undecided,
    unproven,
)


def case(conditions: Sequence[Value], results: Sequence[Value]) -> Value:
    """Translate ``CASE``: the first result whose condition is true, or else the last result.

    Args:
        conditions: The conditions, booleans.
        results: One for each condition, and one more, for none of them.

    Raises:
        UnprovenError: A condition is no boolean, or the results have no common type.
    """
    if any(each.type not in (BOOLEAN, NULL) for each in conditions):
        raise unproven("CASE", conditions)
    *chosen, last = in_common_type("CASE", results)
    duck(last.type)
    cases = " ".join(
        f"WHEN {condition.sql} THEN {result.sql}"
        for condition, result in zip(conditions, chosen, strict=True)
    )
    return result_value(
        f"CASE {cases} ELSE {last.sql} END", last.type, [*conditions, *chosen, last]
    )


def _coalesce(name: str, values: Sequence[Value]) -> Value:
    if not values or (name != "coalesce" and len(values) != 2):
        raise unproven(name, values)
    parts = in_common_type(name, values)
    duck(parts[0].type)
    return result_value(f"coalesce({', '.join(each.sql for each in parts)})", parts[0].type, parts)


def _nullif(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 2:
        raise unproven(name, values)
    first = values[0]
    if common_type(name, values) != first.type:
        raise unproven(name, values)
    is_equal = comparison("=", *values)
    sql = f"CASE WHEN {is_equal.sql} THEN NULL ELSE {first.sql} END"
    return result_value(sql, first.type, [*values, is_equal])


def _nvl2(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 3:
        raise unproven(name, values)
    tested = Value(f"({values[0].sql} IS NOT NULL)", BOOLEAN, may_fail=values[0].may_fail)
    return case([tested], values[1:])


def _if(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 3:
        raise unproven(name, values)
    return case(values[:1], values[1:])


def _extreme(function: str) -> Function:
    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) < 2:
            raise unproven(name, values)
        parts = in_common_type(name, values)
        duck(parts[0].type)
        listed = ", ".join(each.sql for each in parts)
        return result_value(f"{function}({listed})", parts[0].type, parts)

    return of


def _is_null(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 1:
        raise unproven(name, values)
    sign = "IS NULL" if name == "isnull" else "IS NOT NULL"
    return result_value(f"{values[0].sql} {sign}", BOOLEAN, values)


def _is_nan(name: str, values: Sequence[Value]) -> Value:
    if len(values) != 1 or values[0].type != DOUBLE:
        raise unproven(name, values)
    return result_value(f"coalesce(isnan({values[0].sql}), false)", BOOLEAN, values)


def _abs(name: str, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        kind = values[0].type
        if kind in INTEGERS or kind == DOUBLE or pa.types.is_decimal(kind):
            return result_value(
                f"CAST(abs({values[0].sql}) AS {duck(kind)})", kind, values, fails=True
            )
    raise unproven(name, values)


def _whole(function: str) -> Function:
    """Return the translation of ``floor`` or ``ceil``."""

    def of(name: str, values: Sequence[Value]) -> Value:
        if len(values) != 1:
            raise unproven(name, values)
        (value,) = values
        if value.type in INTEGERS:
            return result_value(f"CAST({value.sql} AS BIGINT)", BIGINT, values)
        if value.type == DOUBLE:
            is_usual = f"{value.sql} IS NULL OR abs({value.sql}) < 9e18::DOUBLE"
            sql = f"CAST({function}({value.sql}) AS BIGINT)"
            sql = f"CASE WHEN {is_usual} THEN {sql} ELSE {undecided(value.sql)} END"
            return result_value(sql, BIGINT, values, fails=True)
        if pa.types.is_decimal(value.type):
            digits = value.type.precision - value.type.scale + 1
            if digits <= 37:
                kind = pa.decimal128(digits, 0)
                return result_value(f"CAST({function}({value.sql}) AS {duck(kind)})", kind, values)
        raise unproven(name, values)

    return of


def _round(name: str, values: Sequence[Value]) -> Value:
    """Return a decimal or an integer rounded half up; doubles are rounded in other ways."""
    places = values[1].whole if len(values) == 2 else 0
    if len(values) not in (1, 2) or places is None or not 0 <= places <= 30:
        raise unproven(name, values)
    (value, *_) = values
    if value.type in INTEGERS:
        return result_value(value.sql, value.type, values)
    if pa.types.is_decimal(value.type):
        scale = min(value.type.scale, places)
        digits = value.type.precision - value.type.scale + 1 + scale
        if digits <= 37:
            kind = pa.decimal128(digits, scale)
            return result_value(f"CAST({value.sql} AS {duck(kind)})", kind, values)
    raise unproven(name, values)


CHOICES: dict[str, Function] = {
    "coalesce": _coalesce,
    "nvl": _coalesce,
    "ifnull": _coalesce,
    "nullif": _nullif,
    "nvl2": _nvl2,
    "if": _if,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "isnull": _is_null,
    "isnotnull": _is_null,
    "isnan": _is_nan,
    "abs": _abs,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "round": _round,
}
"""Functions that choose a value, and functions of numbers, by their names in Spark."""
