"""Columns that a transform passes on as they are, told by Spark's analyzed plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, each_of, kind_of, number_of
from spark_jobs.inside.query.transform.given_rows import Given

REORDERS = {"Project", "SubqueryAlias"}
"""Nodes of a plan that keep every row and every value."""
_MERGES = {"Union", "Expand"}


def columns_passed_on(rows: DataFrame, given: Given) -> list[str] | None:
    """Return the columns of a transform that does nothing but pass on columns, in order.

    By Spark's analyzed plan; no query runs. The transform may leave out columns, and change their
    order.

    Args:
        rows: DataFrame that the transform returns.
        given: What it was called with.

    Returns:
        Names of columns, all of which ``given`` has; None if the transform computes, renames,
        filters or keeps anything, or has several inputs.
    """
    if not isinstance(given, DataFrame):
        return None
    analyzed, leaf = analyzed_plan(rows), analyzed_plan(given)
    if any(kind_of(node) not in REORDERS for node in nodes_above(analyzed, leaf)):
        return None
    own, made = dict(columns_of(leaf)), columns_of(analyzed)
    is_passed = all(own.get(number) == name for number, name in made)
    return [name for _, name in made] if is_passed else None


def same_columns(rows: DataFrame, given: Given) -> set[str]:
    """Return the columns that a transform passes on under their names, whatever else it does.

    Empty if it unites or expands rows, as ``union`` and ``rollup`` do.

    Args:
        rows: DataFrame that the transform returns.
        given: What it was called with; of several inputs no column is looked for.
    """
    if not isinstance(given, DataFrame):
        return set()
    leaf, analyzed = analyzed_plan(given), analyzed_plan(rows)
    # Spark gives what such a node makes the numbers of its first input's columns.
    if any(kind_of(node) in _MERGES for node in nodes_above(analyzed, leaf)):
        return set()
    own, made = dict(columns_of(leaf)), columns_of(analyzed)
    return {name for number, name in made if own.get(number) == name}


def columns_of(plan: Any) -> list[tuple[int, str]]:
    """Return number and name of each column of a plan, in order."""
    return [(number_of(column), str(column.name())) for column in each_of(plan.output())]


def nodes_above(node: Any, leaf: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from the output down to a leaf, without that.

    Each comes before those below it.
    """
    if node.equals(leaf):
        return
    yield node
    for child in each_of(node.children()):
        yield from nodes_above(child, leaf)
