"""Nodes of Spark's analyzed query plans, which are Scala objects: walk them, with CTEs inlined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def analyzed_plan(rows: DataFrame) -> Any:
    """Return the analyzed plan of a DataFrame, a Scala object, with views and CTEs inlined.

    Nothing is computed. Spark keeps a WITH clause beside the plan, with its columns under new
    numbers, so what they are computed from could not be followed.
    """
    jvm: Any = rows.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    analyzed = rows._jdf.queryExecution().analyzed()
    inlined = catalyst.optimizer.InlineCTE(True, False).apply(analyzed)
    return catalyst.analysis.EliminateView.apply(inlined)


def aggregates_of(plan: Any) -> list[Any]:
    """Return the nodes of a plan that aggregate a stream, from the output on."""
    return [each for each in nodes_of(plan) if kind_of(each) == "Aggregate" and each.isStreaming()]


def nodes_of(root: Any) -> Iterator[Any]:
    """Yield the nodes of a plan, or of an expression, each before those below it."""
    yield root
    for child in each_of(root.children()):
        yield from nodes_of(child)


def kind_of(thing: Any) -> str:
    """Return the simple class name of a plan's node or expression, as ``EventTimeWatermark``."""
    return str(thing.getClass().getSimpleName())


def number_of(column: Any) -> int:
    """Return Spark's expression id of a named expression, by which plans refer to the column."""
    return int(column.exprId().id())


def each_of(things: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence, in order."""
    for at in range(things.size()):
        yield things.apply(at)
