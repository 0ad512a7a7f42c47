"""The run that computes a generation's changed columns, from the pinned version to its checkpoint.

Whatever it does before the table's commit is done again after a crash; what follows the commit may
be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from sources.changed_columns.documents import ChangedColumns, read_changed_columns
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.changed_columns.fitness import not_fit, require_fit
from spark_jobs.changed_columns.kept import kept_context
from spark_jobs.changed_columns.state import copy_run, pin
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.inside.changed_columns.difference import compare_transforms
from spark_jobs.inside.changed_columns.new_table import NewTable
from spark_jobs.inside.query.transform.described_transform import describe_transform


def compute_changed_columns(
    spark: SparkSession,
    context: PipelineContext,
    say: Callable[[str], None],
    stop: threading.Event,
) -> bool:
    """Compute a generation's changed columns, and take over all others from the serving table.

    Args:
        spark: The Spark session.
        context: The new generation.
        say: Called with a line of text for each step.
        stop: Event that is set to stop; it is looked at between files.

    Returns:
        Whether it is done; False if it was stopped.

    Raises:
        StateError: The transform is no longer the one that was compared; the serving rows can't be
            taken any more; checkpoint, state and
            table of the serving generation do not belong together; or files of its table are gone.
        InputError: The transforms can't be compared any more.
        RunError: Rows did not arrive as they are in their file.
    """
    made = _require_made(context)
    serving = kept_context(context.loaded, made.of)
    given = context.pipeline.current(context.plan.columns_by_name)
    found = compare_transforms(spark, serving.loaded, context.loaded, given)
    if found != made.difference:
        raise _changed(context)
    pinned = pin(serving, context.generation)
    table = NewTable(context, serving, found, pinned)
    if not table.is_committed():
        # After the rows are pinned: what is staged of their micro-batches is there by now.
        _require_same_transform(spark, serving, require_fit(context.loaded, serving))
        if not table.make(spark, say, stop):
            return False
    copy_run(serving, context.generation, pinned)
    say(f"{context.generation.name} continues after micro-batch {pinned.batch:,} of {made.of}.")
    return True


def _require_same_transform(
    spark: SparkSession, serving: PipelineContext, recorded: Transform
) -> None:
    """Refuse a kept definition that does not compute what the one did that made the rows."""
    found = describe_transform(spark, serving, recorded.first_batch, recorded.reached)
    if found.spark == recorded.spark and not found.is_like(recorded):
        why = "the definition that was kept for it is not the one that it ran by"
        raise not_fit(serving.generation.name, why)


def _require_made(context: PipelineContext) -> ChangedColumns:
    made = read_changed_columns(context.generation)
    if made is None:
        message = f"Generation {context.generation.name} computes all columns from its sources."
        raise StateError(message, "Run it: `hybrid run P`.", generation=context.generation.name)
    return made


def _changed(context: PipelineContext) -> StateError:
    name = context.generation.name
    message = (
        f"The transform was changed since generation {name} was planned, so that other columns "
        "would have to be computed. Nothing was written."
    )
    hint = (
        "Plan again: `hybrid plan P`. If that is refused, discard it (`hybrid generation discard "
        "P`), and begin another one: `hybrid generation new P --only-changed`."
    )
    return StateError(message, hint, generation=name, field="transform")
