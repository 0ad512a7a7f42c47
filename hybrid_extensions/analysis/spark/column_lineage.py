"""Column lineage of a transform: the input columns that each of its output columns comes from.

Read from Spark's analyzed plan, whose expressions refer to columns by expression ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, each_of, kind_of, number_of

Inputs = frozenset[str] | None
"""Names of input columns; None if the plan does not tell."""

# Nodes that compute named expressions, and how each one names them.
_NAMED = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Window": "windowExpressions",
}
_NONE: frozenset[str] = frozenset()


def column_lineage(rows: DataFrame, given: DataFrame) -> list[Inputs]:
    """Return for each output column of a transform, in order, the input columns it comes from.

    Read from Spark's analyzed plan; no query runs. Columns that only decide which rows there are,
    as a filter's or a join condition's, are not among them. A Python UDF passes on its arguments.

    Args:
        rows: DataFrame that the transform returned.
        given: DataFrame that it was called with, a stream; the transform reads no other stream.

    Returns:
        Names of input columns; empty for constants and for columns of other tables; None where the
        plan does not tell, as of a function over whole batches (``mapInPandas``).
    """
    lineage = _Lineage(given.columns)
    analyzed = analyzed_plan(rows)
    lineage.visit(analyzed)
    return [lineage.known.get(number_of(column)) for column in each_of(analyzed.output())]


class _Lineage:
    """Input columns of every column of a plan, collected from the leaves up.

    Args:
        columns: Names of the input columns.

    Attributes:
        known: Input columns by expression id.
    """

    def __init__(self, columns: list[str]) -> None:
        self.known: dict[int, Inputs] = {}
        self._columns = columns

    def visit(self, node: Any) -> None:
        kind, children = kind_of(node), list(each_of(node.children()))
        for child in children:
            self.visit(child)
        output = list(each_of(node.output()))
        if not children:
            self._learn_leaf(node, output)
        elif kind in _NAMED:
            for each in each_of(getattr(node, _NAMED[kind])()):
                self.known[number_of(each)] = self._of(each)
        elif kind == "Union":
            sides = [self._outputs(child) for child in children]
            for column, parts in zip(output, zip(*sides, strict=True), strict=True):
                self.known[number_of(column)] = _merged(parts)
        elif kind == "Expand":
            ways = [
                [self._of(each) for each in each_of(way)] for way in each_of(node.projections())
            ]
            for column, parts in zip(output, zip(*ways, strict=True), strict=True):
                self.known[number_of(column)] = _merged(parts)
        elif kind == "Generate":
            inputs = self._of(node.generator())
            self.known |= dict.fromkeys(map(number_of, each_of(node.generatorOutput())), inputs)
        for column in output:
            self.known.setdefault(number_of(column), None)

    def _learn_leaf(self, node: Any, output: list[Any]) -> None:
        names = [str(column.name()) for column in output]
        if node.isStreaming():
            is_input = names == self._columns
            inputs = [frozenset([name]) if is_input else None for name in names]
        else:
            # Another table: its columns come from no input column.
            inputs = [_NONE] * len(output)
        self.known |= dict(zip(map(number_of, output), inputs, strict=True))

    def _outputs(self, node: Any) -> list[Inputs]:
        return [self.known.get(number_of(column)) for column in each_of(node.output())]

    def _of(self, expression: Any) -> Inputs:
        references = each_of(expression.references().toSeq())
        return _merged(self.known.get(number_of(each)) for each in references)


def _merged(parts: Iterable[Inputs]) -> Inputs:
    merged = _NONE
    for part in parts:
        if part is None:
            return None
        merged |= part
    return merged
