"""Refusals of a transform's result: no stream, or stateful where that would give wrong rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from sources.config.pipeline import Pipeline
from sources.errors import InputError, SeamError
from sources.extensions import contributions
from spark_jobs.inside.checkpoint.transform_shape import Shape


def require_stream(name: str, rows: object) -> None:
    """Refuse a transform's result that is not a stream derived from its argument.

    Args:
        name: The transform: ``module:function``, or the file of a query.
        rows: What it returned for a stream.

    Raises:
        InputError: It is no DataFrame, or no stream.
    """
    if not isinstance(rows, DataFrame):
        what = "nothing" if rows is None else "no DataFrame of Spark"
        message = f"`transform: {name}` returned {what}; it has to return a DataFrame of Spark."
        hint = (
            "Return from this function the DataFrame whose rows go into the target, then run the "
            "pipeline again: `hybrid run P`. Nothing was read or written."
        )
        raise InputError(message, hint, field="transform", value=name)
    if not rows.isStreaming:
        message = (
            f"`transform: {name}` returned a DataFrame that is not made of its argument: the "
            "argument is a stream, the result is not."
        )
        hint = (
            "Compute the result from the DataFrame that the function gets; another table may only "
            "be joined to it. Then run the pipeline again: `hybrid run P`. Nothing was read or "
            "written."
        )
        raise InputError(message, hint, field="transform", value=name)


def require_replayable(pipeline: Pipeline, replayed: Sequence[str], rows: DataFrame) -> None:
    """Refuse a stateful transform if rows of a seam are read again, which it would count twice.

    Merging a change twice in its order does no harm.

    Args:
        pipeline: The pipeline.
        replayed: Names of the sources whose rows in the seam are read again; empty for none.
        rows: DataFrame that the transform returns.

    Raises:
        SeamError: The transform is stateful, and rows are replayed.
    """
    kept = Shape(rows).stateful if replayed else []
    if not kept:
        return
    order = ", ".join(pipeline.sink.order)
    message = (
        f"Rows of the topic that history may hold are read again by source `{replayed[0]}`, as "
        f"`sink.sequence: {order}` puts them in order; but `transform: {pipeline.transform.name}` "
        f"is stateful and would count them twice. It keeps {kept[0]}."
    )
    hint = (
        f"Declare `key: [{', '.join(dict.fromkeys([*pipeline.key, *pipeline.sink.order]))}]` for "
        "the pipeline: rows are then recognized by key and version, and none is read twice. If "
        "rows of one key never change, declare `seam_filter: key`. No row was read or written."
    )
    raise SeamError(message, hint, source=replayed[0], field="key")


def require_extensible(pipeline: Pipeline, rows: DataFrame) -> None:
    """Refuse a stateful transform if later columns of the captured table are followed.

    What its operators keep in the checkpoint has the columns of before.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.

    Raises:
        InputError: The transform is stateful, and columns are followed.
    """
    kept = Shape(rows).stateful if pipeline.changes_target else []
    if not kept:
        return
    message = (
        f"`transform: {pipeline.transform.name}` is stateful, and `on_schema_change: follow` would "
        f"change the columns that it sees while it keeps {kept[0]} in the checkpoint."
    )
    hint = (
        "Declare `on_schema_change: stop`: a column that was added then stops the run. Or let the "
        "transform pass on rows, and compute the rest from the target. Nothing was read or written."
    )
    raise InputError(message, hint, field="transform", value=pipeline.transform.name)


def require_row_by_row(pipeline: Pipeline, rows: DataFrame) -> None:
    """Refuse a stateful transform if changes are followed while a snapshot is still being read.

    Its operators would see rows of the snapshot after changes that came later.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.

    Raises:
        InputError: The transform is stateful, and a snapshot has ``follow: while_reading``.
    """
    beside = [each for each in pipeline.file_sources if each.follows_while_reading]
    kept = Shape(rows).stateful if beside else []
    if not kept:
        return
    message = (
        f"`transform: {pipeline.transform.name}` is stateful: it keeps {kept[0]}. With `follow: "
        f"while_reading`, rows of the snapshot `{beside[0].name}` come after changes that are "
        "newer, and would be counted in the wrong order."
    )
    hint = (
        f"Remove `follow` from the `snapshot` of `{beside[0].name}`; or let the transform pass on "
        "rows, and compute the rest from the target. Nothing was read or written."
    )
    raise InputError(message, hint, source=beside[0].name, field="snapshot.follow")


def require_fitting(pipeline: Pipeline, rows: DataFrame, given: DataFrame) -> None:
    """Refuse a transform that does not fit what is declared for extensions; no query runs.

    Args:
        pipeline: The pipeline.
        rows: DataFrame that the transform returns.
        given: DataFrame that it was called with: a stream that is a leaf of the plan.

    Raises:
        InputError: Contains the column, or the operation that drops or changes rows.
    """
    for check in contributions("transform_checks"):
        check(pipeline, rows, given)
