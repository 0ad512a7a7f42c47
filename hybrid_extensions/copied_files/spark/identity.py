"""Transform refused with `sink.copy_files` unless it only puts columns into another order."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sources.config.code.transform import SqlTransform
from sources.config.pipeline import Pipeline
from sources.errors import InputError
from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, kind_of
from spark_jobs.inside.query.transform.passed_columns import REORDERS, columns_of, nodes_above


def require_identity(pipeline: Pipeline, rows: DataFrame, given: DataFrame) -> None:
    """Refuse a transform that does more than to put the columns into another order.

    Without ``sink.copy_files`` nothing is refused.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.
        given: DataFrame that it was called with: a stream that is a leaf of the plan.

    Raises:
        InputError: Names the operation, or the column.
    """
    if not pipeline.sink.copy_files:
        return
    analyzed, leaf = analyzed_plan(rows), analyzed_plan(given)
    others = [
        kind for node in nodes_above(analyzed, leaf) if (kind := kind_of(node)) not in REORDERS
    ]
    what = f"does more than that (`{others[0]}` in Spark's plan)" if others else None
    own, made = dict(columns_of(leaf)), dict(columns_of(analyzed))
    if what is None and own != made:
        differing = {*own.items()} ^ {*made.items()}
        what = f"adds, changes or leaves out column `{min(name for _, name in differing)}`"
    if what is None:
        return
    message = (
        f"`sink.copy_files` needs a transform that returns every row and column as it is; "
        f"`transform: {pipeline.transform.name}` {what}."
    )
    is_query = isinstance(pipeline.transform, SqlTransform)
    same = "query select all columns" if is_query else "transform return its argument"
    hint = (
        "Remove `sink.copy_files`: the rows of history are then computed and written. Or let the "
        f"{same}. Nothing was read or written."
    )
    raise InputError(message, hint, field="sink.copy_files", value=pipeline.transform.name)
