"""Transform refused with `sink.unchanged` or TRUNCATE: it must pass on rows and long values.

Such a value is null in the DataFrame that the transform sees. What is computed from it would be
wrong, and a change that the transform drops would take a value with it. So every row and every one
of these columns has to leave the transform as it came. It may leave out columns and compute others.
The same holds for a TRUNCATE that is followed, a delete without a key: with its key, sequence and
mark of deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from sources.common.schema import may_be_long, parse_type
from sources.config.pipeline import Pipeline
from sources.errors import InputError
from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, each_of, kind_of, number_of
from spark_jobs.inside.query.transform.passed_columns import nodes_above

# Nodes that keep every row, as it is but for the columns that a projection adds or leaves out.
_KEEPS_ROWS = {"Project", "SubqueryAlias", "EventTimeWatermark", "ResolvedHint"}


def require_passed_on(pipeline: Pipeline, rows: DataFrame, given: DataFrame) -> None:
    """Refuse a transform that drops changes, or uses a value that a change may lack.

    Without ``sink.unchanged`` no change may lack a value, and without ``on_truncate: follow`` none
    lacks a key: nothing is refused then. By Spark's analyzed plan; no query runs.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.
        given: DataFrame that it was called with: a stream that is a leaf of the plan.

    Raises:
        InputError: Contains the column, or the operation that drops rows.
    """
    if pipeline.sink.unchanged is None and not pipeline.follows_truncates:
        return
    marks = _marks(pipeline)
    analyzed, leaf = analyzed_plan(rows), analyzed_plan(given)
    given_numbers = {number_of(column) for column in each_of(leaf.output())}
    long = {
        number_of(column): str(column.name())
        for column in each_of(leaf.output())
        if column.name() in _long_columns(pipeline)
    }
    for node in nodes_above(analyzed, leaf):
        if (kind := kind_of(node)) not in _KEEPS_ROWS:
            _refuse(pipeline, f"does more than add or leave out columns (`{kind}` in Spark's plan)")
        for expression in each_of(node.expressions()):
            for column in _used(expression):
                if number_of(column) in long:
                    _refuse(
                        pipeline,
                        f"renames or uses column `{long[number_of(column)]}`, which is null in a "
                        "change that left it as it was",
                        long[number_of(column)],
                    )
    for column in each_of(analyzed.output()):
        is_other = column.name() in long.values() and number_of(column) not in long
        if is_other or (column.name() in marks and number_of(column) not in given_numbers):
            _refuse(pipeline, f"returns another column `{column.name()}`", str(column.name()))


def _marks(pipeline: Pipeline) -> set[str]:
    """Return the columns by which a TRUNCATE is recognized; none if it is not followed."""
    sink = pipeline.sink
    return {*sink.key, *sink.order, str(sink.deleted)} if pipeline.follows_truncates else set()


def _long_columns(pipeline: Pipeline) -> set[str]:
    """Return the columns of the captured table whose value a change may lack, and the list."""
    if pipeline.sink.unchanged is None:
        return set()
    names = {pipeline.sink.unchanged}
    for topic in pipeline.topics:
        columns = topic.current(topic.value_columns)
        names |= {name for name, kind in columns.items() if may_be_long(parse_type(kind))}
    return names - {*pipeline.sink.key}


def _used(expression: Any) -> Iterator[Any]:
    """Yield the columns of which an expression computes something; none if it is a column."""
    if kind_of(expression) != "AttributeReference":
        yield from each_of(expression.references().toSeq())


def _refuse(pipeline: Pipeline, what: str, column: str | None = None) -> None:
    transform, unchanged = pipeline.transform.name, pipeline.sink.unchanged is not None
    both = ["`sink.unchanged`"] * unchanged + ["`on_truncate: follow`"] * pipeline.follows_truncates
    needs = "needs" if len(both) == 1 else "need"
    message = (
        f"`transform: {transform}` {what}; {' and '.join(both)} {needs} every change as it is."
    )
    full = "run ALTER TABLE … REPLICA IDENTITY FULL in the database, and " if unchanged else ""
    removed = ["`unchanged` from `include` and `sink`"] * unchanged
    removed += ["`on_truncate`"] * pipeline.follows_truncates
    hint = (
        "Pass on every row, and these columns as they are; compute the rest from the target. Or "
        f"{full}remove {', and '.join(removed)}. Nothing was read or written."
    )
    if column is None:
        raise InputError(message, hint, field="transform", value=transform)
    raise InputError(message, hint, field="transform", value=transform, column=column)
