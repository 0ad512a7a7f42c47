"""Check that a transform passes on the values that a change may lack.

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
from spark_jobs.inside.query.transform.given_rows import Given

# Nodes that keep every row, as it is but for the columns that a projection adds or leaves out.
_KEEPS_ROWS = {"Project", "SubqueryAlias", "EventTimeWatermark", "ResolvedHint"}
# Nodes that keep every row and every value.
_REORDERS = {"Project", "SubqueryAlias"}


def needs_rows_passed_on(pipeline: Pipeline) -> bool:
    """Return whether the pipeline's sink requires a transform that passes rows on unchanged.

    If so, :func:`require_passed_on` is to be called.
    """
    sink = pipeline.sink
    return sink.unchanged is not None or pipeline.follows_truncates or sink.copy_files


def require_passed_on(pipeline: Pipeline, rows: DataFrame, given: DataFrame) -> None:
    """Refuse a transform that does not pass on every change, and values that a change may lack.

    Without ``sink.unchanged`` no change may lack a value, and without ``on_truncate: follow`` none
    lacks a key: nothing is refused then. With ``sink.copy_files`` every row and column has to be
    passed on, under its name: the rows of a file that is copied are not evaluated. By Spark's
    analyzed plan; no query runs.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.
        given: DataFrame that it was called with: a stream that is a leaf of the plan.

    Raises:
        InputError: Contains the column, or the operation that drops rows.
    """
    if pipeline.sink.copy_files:
        _require_identity(pipeline, rows, given)
    if pipeline.sink.unchanged is None and not pipeline.follows_truncates:
        return
    name, marks = pipeline.transform.name, _marks(pipeline)
    analyzed, leaf = analyzed_plan(rows), analyzed_plan(given)
    given_numbers = {number_of(column) for column in each_of(leaf.output())}
    long = {
        number_of(column): str(column.name())
        for column in each_of(leaf.output())
        if column.name() in _long_columns(pipeline)
    }
    for node in _nodes(analyzed, leaf):
        if (kind := kind_of(node)) not in _KEEPS_ROWS:
            _refuse(name, f"does more than add or leave out columns (`{kind}` in Spark's plan)")
        for expression in each_of(node.expressions()):
            for column in _used(expression):
                if number_of(column) in long:
                    _refuse(
                        name,
                        f"renames or uses column `{long[number_of(column)]}`, which is null in a "
                        "change that left it as it was",
                        long[number_of(column)],
                    )
    for column in each_of(analyzed.output()):
        is_other = column.name() in long.values() and number_of(column) not in long
        if is_other or (column.name() in marks and number_of(column) not in given_numbers):
            _refuse(name, f"returns another column `{column.name()}`", str(column.name()))


def columns_passed_on(rows: DataFrame, given: Given) -> list[str] | None:
    """Return the columns of a transform that does nothing but pass on columns, in order.

    By Spark's analyzed plan; no query runs.

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
    if any(kind_of(node) not in _REORDERS for node in _nodes(analyzed, leaf)):
        return None
    own, made = dict(_columns_of(leaf)), _columns_of(analyzed)
    is_passed = all(own.get(number) == name for number, name in made)
    return [name for _, name in made] if is_passed else None


def same_columns(rows: DataFrame, given: Given) -> set[str]:
    """Return the columns that a transform passes on under their names, whatever else it does.

    Args:
        rows: DataFrame that the transform returns.
        given: What it was called with; of several inputs no column is looked for.
    """
    if not isinstance(given, DataFrame):
        return set()
    own = dict(_columns_of(analyzed_plan(given)))
    made = _columns_of(analyzed_plan(rows))
    return {name for number, name in made if own.get(number) == name}


def _columns_of(plan: Any) -> list[tuple[int, str]]:
    """Return number and name of each column of a plan, in order."""
    return [(number_of(column), str(column.name())) for column in each_of(plan.output())]


def _require_identity(pipeline: Pipeline, rows: DataFrame, given: DataFrame) -> None:
    """Refuse a transform that does more than to put the columns into another order."""
    analyzed, leaf = analyzed_plan(rows), analyzed_plan(given)
    others = [kind for node in _nodes(analyzed, leaf) if (kind := kind_of(node)) not in _REORDERS]
    what = f"does more than that (`{others[0]}` in Spark's plan)" if others else None
    own, made = dict(_columns_of(leaf)), dict(_columns_of(analyzed))
    if what is None and own != made:
        differing = {*own.items()} ^ {*made.items()}
        what = f"changes or leaves out column `{min(name for _, name in differing)}`"
    if what is None:
        return
    message = (
        f"`sink.copy_files` needs a transform that returns every row and column as it is; "
        f"`transform: {pipeline.transform.name}` {what}."
    )
    hint = (
        "Remove `sink.copy_files`: the rows of history are then computed and written. Or let the "
        "transform return its argument. Nothing was read or written."
    )
    raise InputError(message, hint, field="sink.copy_files", value=pipeline.transform.name)


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


def _nodes(node: Any, leaf: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from the output down to a leaf, without that."""
    if node.equals(leaf):
        return
    yield node
    for child in each_of(node.children()):
        yield from _nodes(child, leaf)


def _used(expression: Any) -> Iterator[Any]:
    """Yield the columns of which an expression computes something; none if it is a column."""
    if kind_of(expression) != "AttributeReference":
        yield from each_of(expression.references().toSeq())


def _refuse(transform: str, what: str, column: str | None = None) -> None:
    message = (
        f"`transform: {transform}` {what}; `sink.unchanged` and `on_truncate: follow` need every "
        "change as it is."
    )
    hint = (
        "Pass on every row, and these columns as they are; compute the rest from the target. Or "
        "run ALTER TABLE … REPLICA IDENTITY FULL in the database, and remove `unchanged` from "
        "`include` and `sink`, and `on_truncate`. Nothing was read or written."
    )
    if column is None:
        raise InputError(message, hint, field="transform", value=transform)
    raise InputError(message, hint, field="transform", value=transform, column=column)
