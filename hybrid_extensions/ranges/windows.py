"""Windows of a table: how a transform groups rows, and which windows are final."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from sources.common.positions import EndPosition
from sources.errors import StateError
from sources.kept_definitions import kept_declaration
from sources.planning.context import PipelineContext
from sources.planning.event_windows import EventWindows
from spark_jobs.checkpoint.history_watermark import HistoryWatermark, history_watermark
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.table.history_files import has_history_files

RERUN = "Recompute the whole table as a new generation: `hybrid rerun P`."


class FinalTime(NamedTuple):
    """Time up to which windows are complete from history and get no live row.

    Attributes:
        moment: A window that ends then, or earlier, is final.
        is_watermark: Whether it is the watermark that history left; else it is the time through
            which history is complete.
    """

    moment: datetime
    is_watermark: bool


def windows_by(context: PipelineContext) -> EventWindows | None:
    """Return the windows that a pipeline's transform groups by; None if it is stateless.

    Known from the analysis of the transform, which is repeated if the kept one is of another
    transform; that starts a short Spark process.

    Args:
        context: The serving generation, whose history was read to its end.

    Raises:
        StateError: The transform keeps state by which ranges can't be recomputed; says why.
        InputError: The transform can't be loaded.
        UnavailableError: The state's store does not answer.
    """
    pipeline, generation = context.pipeline, context.generation
    # By this one the runs go, and so does the recomputation.
    with TransformCheck(kept_declaration(context.loaded, generation.name)) as check:
        analysis = check.current(context.plan, generation)
    if analysis.columns is not None and not analysis.stateful:
        return None
    windows, why = analysis.windows, analysis.no_windows or analysis.warning
    if windows is not None and pipeline.sink.order:
        order = ", ".join(pipeline.sink.order)
        why = f"`sink.sequence: {order}` orders the versions of a window, of which a range has one"
    elif windows is not None and windows.column not in pipeline.sink.key:
        key = ", ".join(pipeline.sink.key)
        why = (
            f"`sink.key` ({key}) does not contain `{windows.column}`, so rows of several windows "
            "have the same key"
        )
    elif windows is not None:
        return windows
    message = (
        f"`transform: {pipeline.transform.name}` keeps state, and ranges of its table can't be "
        f"recomputed: {(why or '').rstrip('.')}."
    )
    raise StateError(message, RERUN, pipeline=pipeline.name, field="transform")


def final_time(context: PipelineContext, end: EndPosition) -> FinalTime:
    """Return the time by which windows are final; the live run's state holds later ones only.

    It is the earlier one of the watermark that history left and the time through which it is
    complete.

    Args:
        context: The serving generation.
        end: End position of the last source of files.

    Raises:
        StateError: The watermark that history left is not recorded, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = _history_watermark(context)
    if found is None:
        name = context.generation.name
        message = (
            f"Generation {name} has no record of the watermark that history left to the live run, "
            "so it is unknown into which windows the live run has counted rows. The record is "
            "written when the live run starts for the first time; an earlier version of this "
            "project wrote none."
        )
        hint = (
            "Start the live run, `hybrid run P`, if it has never run. Otherwise recompute the "
            "whole table as a new generation: `hybrid rerun P`."
        )
        raise StateError(message, hint, generation=name)
    # A row of the last millisecond is in the files.
    complete_ms = end.complete_through_ms + 1
    final_ms = min(found.watermark_ms, complete_ms)
    return FinalTime(
        datetime.fromtimestamp(final_ms / 1000, UTC), is_watermark=final_ms < complete_ms
    )


def _history_watermark(context: PipelineContext) -> HistoryWatermark | None:
    generation = context.generation
    while True:
        is_live = has_history_files(generation)
        found = history_watermark(generation, is_live=is_live)
        # The live run may start meanwhile, and move the checkpoint's watermark.
        if has_history_files(generation) == is_live:
            return found
