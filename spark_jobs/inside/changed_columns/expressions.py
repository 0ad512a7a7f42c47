"""Expressions of Spark's plans: whether two are the same; one expressed by a table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql.classic.column import _to_seq

from sources.errors import InputError
from spark_jobs.changed_columns.fitness import RERUN
from spark_jobs.inside.checkpoint.plan_nodes import each_of, kind_of

_COMMUTATIVE = ("Add", "Multiply")
_OF_CLOCK = ("CurrentTimestamp", "CurrentDate", "Now", "LocalTimestamp", "CurrentTime")
_OF_TABLES = ("ScalarSubquery", "InSubquery", "ListQuery", "Exists", "LateralSubquery")
_OF_USERS = ("PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF")


def is_deterministic(value: Any) -> bool:
    """Return whether an expression has the same value for the same row whenever it is computed."""
    return bool(value.deterministic()) and not any(
        kind_of(each) in _OF_CLOCK for each in parts_of(value)
    )


def has_subquery(value: Any) -> bool:
    """Return whether an expression looks at another table, which may be another one by now."""
    return any(kind_of(each) in _OF_TABLES for each in parts_of(value))


def is_same(one: Any, other: Any) -> bool:
    """Return whether two expressions have the same values for sure.

    Spark takes sums and products for the same in any order, but with floating point the last digit
    may be another one then. What the function of a user does, no plan tells.
    """
    if not one.semanticEquals(other):
        return False
    return not any(kind_of(each) in _OF_USERS for each in parts_of(one)) and _is_in_order(
        one, other
    )


def _is_in_order(one: Any, other: Any) -> bool:
    """Return whether two expressions that Spark takes for the same add floats in the same order."""
    parts = list(zip(each_of(one.children()), each_of(other.children()), strict=False))
    if all(part.semanticEquals(same) for part, same in parts):
        return all(_is_in_order(part, same) for part, same in parts)
    return not any(
        kind_of(each) in _COMMUTATIVE and each.dataType().simpleString() in ("float", "double")
        for each in parts_of(one)
    )


def over_table(
    name: str, value: Any, known: Sequence[tuple[Any, Any]], context: SparkContext
) -> Any:
    """Return an expression with the table's columns in place of what they were computed from.

    Args:
        name: Column whose value it is.
        value: The expression over the columns that the transform gets.
        known: What the table has: expressions over these columns, and its column for each.
        context: The Spark context.

    Raises:
        InputError: It needs a column that the table does not have; names it.
    """
    for before, attribute in known:
        if is_same(value, before) and value.dataType().equals(before.dataType()):
            return attribute
    if kind_of(value) == "AttributeReference":
        message = (
            f"Column `{name}` is computed from `{value.name()}`, which the table does not have: "
            "the transform returned neither that column nor a value by which to get it."
        )
        hint = (
            f"{RERUN} If the transform returns `{value.name()}` from then on, later columns can "
            "be computed from it."
        )
        raise InputError(message, hint, column=name, value=str(value.name()))
    children = [over_table(name, each, known, context) for each in each_of(value.children())]
    if not children:
        return value
    return value.withNewChildren(_to_seq(context, children))


def parts_of(expression: Any) -> Iterator[Any]:
    """Yield an expression and all its sub-expressions."""
    yield expression
    for child in each_of(expression.children()):
        yield from parts_of(child)
