"""Comparison of two transforms before anything runs, by the short Spark process of a plan."""

from __future__ import annotations

from sources.changed_columns.documents import (
    ColumnDifference,
    ColumnsAnswer,
    ColumnsRequest,
)
from sources.config.loader import LoadedPipeline
from sources.errors import StateError, error_of
from sources.planning.context import PipelineContext
from sources.serving import target_of
from spark_jobs.changed_columns.fitness import RERUN, not_fit, require_fit, require_plain
from spark_jobs.launch.questions.spark_process import SparkProcess
from spark_jobs.table.table_snapshot import read_snapshot


def ask_difference(
    loaded: LoadedPipeline, serving: PipelineContext, process: SparkProcess
) -> ColumnDifference:
    """Return which columns a transform returns otherwise than that of the serving generation.

    Args:
        loaded: The pipeline as it is declared now.
        serving: The serving generation, with the definition that was kept for it.
        process: The process that is asked.

    Raises:
        StateError: The rows of the serving generation can't be taken, nothing has changed, or Spark
            can't run on this machine.
        InputError: The transforms can't be compared, or a changed column needs what the table does
            not have.
    """
    made = require_fit(loaded, serving)
    table = target_of(serving.loaded, serving.generation.name)
    require_plain(read_snapshot(table), serving.generation.name)
    request = ColumnsRequest(
        before=serving.loaded.path,
        now=loaded.path,
        given=serving.pipeline.current(serving.plan.columns_by_name),
    )
    text = process.ask(request.model_dump_json())
    answer = ColumnsAnswer.model_validate_json(text) if text else ColumnsAnswer()
    if answer.refusal is not None:
        raise error_of(answer.refusal)
    difference, name = answer.difference, serving.generation.name
    if difference is None:
        message = f"The transforms can't be compared on this machine: {process.reason}."
        raise StateError(message, RERUN, generation=name)
    if difference.before != made.code:
        raise not_fit(name, "the definition that was kept for it is not the one that it ran by")
    if not (difference.changed or difference.removed):
        raise not_fit(name, "the transform returns the same columns as before")
    return difference
