"""Shape of a transform: digest of its code, plan without session ids, state of its operators.

Read from Spark's analyzed plan. Its expressions refer to columns by numbers that differ from one
session to the next; here each number is replaced by what the column was computed from, down to the
input.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.inside.checkpoint.plan_nodes import (
    analyzed_plan,
    each_of,
    kind_of,
    nodes_of,
    number_of,
)

# `amount#12`, `count#15L`, `at#3-T600000ms`; a function's number has no name before it.
_COLUMN = re.compile(r"([^\s(),\[\]]*)#(\d+)L?(?:-T\d+ms)?")
# Differs from one session to the next: addresses, ids of watermarks, views of `spark.sql`.
_PASSING = re.compile(r"@[0-9a-f]+|_pyspark_[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The seed that Spark draws for each `rand()` and the like that is written without one.
_SEED = re.compile(r"(?<=\brand\()-?\d+|(?<=\brandn\()-?\d+|(?<=\bSome\()-?\d+")
# How Spark writes `window(at, …)` once it is analyzed; lengths in microseconds follow.
_WINDOW = re.compile(
    r"named_struct\(start, knownnullable\(precisetimestampconversion\(\(+"
    r"precisetimestampconversion\((.*?), TimestampType"
)
_LENGTHS = re.compile(r"\b\d{4,}\b")
_WATERMARK = "a watermark of "
_MOST_FIELDS = "spark.sql.debug.maxToStringFields"


class Shape:
    """Description of a transform's query plan in words that do not depend on the Spark session.

    Two transforms with equal descriptions keep the same state and compute the same rows.

    Args:
        rows: DataFrame that the transform returns for a stream; that stream is a leaf of the plan.
        names: Names of columns of leaves by Spark's expression id, where those in the plan are
            ambiguous: with several inputs, each name begins with that of its input.

    Attributes:
        operators: What each stateful operator keeps in the checkpoint, and each watermark with its
            delay: one text each, from the input to the output.
        lines: Each node of Spark's analyzed plan as one line, from the input to the output.
    """

    def __init__(self, rows: DataFrame, names: Mapping[int, str] | None = None) -> None:
        self.operators: list[str] = []
        self.lines: list[str] = []
        self._meaning: dict[int, str] = dict(names or {})
        conf = rows.sparkSession.conf
        before = conf.get(_MOST_FIELDS)
        # By default Spark truncates long lists, which would hide a change in the rest.
        conf.set(_MOST_FIELDS, "1000000")
        try:
            self._visit(analyzed_plan(rows))
        finally:
            conf.set(_MOST_FIELDS, before or "25")

    @property
    def stateful(self) -> list[str]:
        """Descriptions of the stateful operators, as in ``operators``; empty without any."""
        return [kept for kept in self.operators if not kept.startswith(_WATERMARK)]

    def _visit(self, node: Any) -> None:
        children = list(each_of(node.children()))
        for child in children:
            self._visit(child)
        kind = kind_of(node)
        self._learn(node, kind, is_leaf=not children)
        if children:
            line = self._text(node.simpleString(1_000_000))
            self.lines.append(_PASSING.sub("", line))
        if node.isStreaming() and (kept := self._kept(node, kind)) is not None:
            self.operators.append(kept)

    def _learn(self, node: Any, kind: str, *, is_leaf: bool) -> None:
        """Record what the columns that a node adds are computed from."""
        if kind in ("Project", "Aggregate"):
            named = node.projectList() if kind == "Project" else node.aggregateExpressions()
            for each in each_of(named):
                if kind_of(each) == "Alias":
                    self._meaning[number_of(each)] = self._text(each.child())
        elif kind == "Expand":
            ways = [list(each_of(way)) for way in each_of(node.projections())]
            for column, texts in zip(each_of(node.output()), zip(*ways, strict=True), strict=True):
                self._meaning[number_of(column)] = self._words(texts, " or ")
        elif kind == "Generate":
            for column in each_of(node.generatorOutput()):
                text = f"{self._text(node.generator())}.{column.name()}"
                self._meaning[number_of(column)] = text
        for column in each_of(node.output()):
            name = column.name() if is_leaf else f"{kind}.{column.name()}"
            self._meaning.setdefault(number_of(column), name)

    def _kept(self, node: Any, kind: str) -> str | None:
        """Return what a node keeps between micro-batches, in words; None if nothing."""
        describe = _KEPT.get(kind)
        return None if describe is None else describe(self, node)

    def _aggregate(self, node: Any) -> str:
        functions = [
            self._text(each)
            for column in each_of(node.aggregateExpressions())
            for each in nodes_of(column)
            if kind_of(each) == "AggregateExpression"
        ]
        # Spark keeps each once, in this order.
        kept = ", ".join(dict.fromkeys(functions)) or "nothing more"
        return f"{kept} by {self._words(each_of(node.groupingExpressions()))}"

    def _join(self, node: Any) -> str | None:
        if not all(side.isStreaming() for side in each_of(node.children())):
            return None
        condition = node.condition()
        on = self._text(condition.get()) if condition.isDefined() else "nothing"
        return f"both sides of a join ({node.joinType().toString()}) on {on}"

    def _watermark(self, node: Any) -> str:
        return f"{_WATERMARK}{node.delay().toString()} on {self._text(node.eventTime())}"

    def _pandas_state(self, node: Any) -> str:
        kept = node.stateType().simpleString()
        by = self._words(each_of(node.groupingAttributes()))
        return f"{kept} of a function's own by {by}"

    def _words(self, expressions: Iterable[Any], between: str = ", ") -> str:
        return between.join(dict.fromkeys(self._text(each) for each in expressions))

    def _text(self, expression: Any) -> str:
        text = expression if isinstance(expression, str) else expression.toString()
        text = _COLUMN.sub(lambda found: self._meaning.get(int(found[2]), found[1]), text)
        text = _SEED.sub("", text)
        if not isinstance(expression, str) and (found := _WINDOW.match(text)) is not None:
            lengths = dict.fromkeys(int(number) / 1e6 for number in _LENGTHS.findall(text))
            return f"window({found[1]}, {', '.join(f'{length:,g} s' for length in lengths)})"
        return text


# By the name of the node's class in org.apache.spark.sql.catalyst.plans.logical.
_KEPT: dict[str, Callable[[Shape, Any], str | None]] = {
    "Aggregate": Shape._aggregate,
    "Deduplicate": lambda shape, node: f"rows seen by {shape._words(each_of(node.keys()))}",
    "Distinct": lambda shape, node: f"rows seen by {shape._words(each_of(node.output()))}",
    "DeduplicateWithinWatermark": lambda shape, node: (
        f"rows seen within the watermark by {shape._words(each_of(node.keys()))}"
    ),
    "EventTimeWatermark": Shape._watermark,
    "FlatMapGroupsInPandasWithState": Shape._pandas_state,
    "GlobalLimit": lambda shape, node: f"how many of {shape._text(node.limitExpr())} rows passed",
    "Join": Shape._join,
    "TransformWithStateInPySpark": lambda shape, node: (
        f"state of a processor's own by {shape._words(each_of(node.leftAttributes()))}"
    ),
}


def digest_of_code(function: Callable[..., Any]) -> str:
    """Return a digest of the code of a function's module, without comments and layout.

    It differs once the code has changed. Without source code (only a compiled file exists) it is
    the digest of an empty text.
    """
    try:
        text = ast.dump(ast.parse(_source_of(inspect.unwrap(function))))
    except (OSError, TypeError, KeyError, ValueError):
        # Only a compiled file exists.
        text = ""
    return digest(text)


def _source_of(function: Callable[..., Any]) -> str:
    try:
        # By its file: a module of that name may be another pipeline's.
        return Path(inspect.getfile(function)).read_text()
    except TypeError:
        # An object that can be called.
        return inspect.getsource(sys.modules[function.__module__])


def digest(text: str) -> str:
    """Return a short digest of a text: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
