"""Scope of a followed range: the rows here that were made from a range of the followed table."""

from __future__ import annotations

from datetime import UTC, datetime

from hybrid_extensions.ranges.range_scope import RangeScope, require_exchangeable, utc
from hybrid_extensions.ranges.windows import RERUN, windows_by
from sources.errors import StateError
from sources.files.tables.replaced_range import ReplacedRange
from sources.planning.context import PipelineContext
from sources.planning.event_windows import Interval
from sources.serving import require_in_service
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.transform_compatibility import read_transforms


def scope_of(context: PipelineContext, replaced: ReplacedRange) -> RangeScope:
    """Return which rows a pipeline made from a range of the table that it follows.

    Of a table of windows these are all windows with an event time of the range. They have to be
    final: the live run's state holds the others, with the rows as they were before.

    May start a short Spark process that analyzes the transform, if the kept analysis is outdated.

    Args:
        context: The serving generation.
        replaced: The range of the followed table.

    Raises:
        InputError: The transform can't be loaded.
        StateError: The table can't follow the range: its event time is another column, it merges
            single rows, keeps state by something else than windows, has windows of the range
            that are still open, or has deletion vectors.
        UnavailableError: A store does not answer.
    """
    pipeline, generation = context.pipeline, context.generation
    name, event_time = pipeline.name, pipeline.event_time.column
    require_in_service(context.loaded, generation)
    require_exchangeable(context)
    since, until = replaced.since, replaced.until
    if replaced.field is not None or replaced.column != event_time:
        message = (
            f"Pipeline `{name}` can't follow the range {replaced} of the table that it reads: its "
            f"own event time is the column `{event_time}`, so what was made of the range is not "
            "known."
        )
        raise StateError(message, RERUN, pipeline=name, field="event_time")
    known = read_transforms(generation)
    windows = windows_by(context) if known and known[-1].operators else None
    if windows is None:
        if pipeline.sink.mode != "append":
            message = (
                f"Pipeline `{name}` can't follow the range {replaced} of the table that it reads: "
                f"it merges single rows by key (`sink.mode: {pipeline.sink.mode}`), and a key of "
                "the range may have other rows elsewhere."
            )
            raise StateError(message, RERUN, pipeline=name, field="sink.mode")
        return RangeScope(since, until, None, Interval(since, until))
    starts = windows.touched_by(since, until)
    read = windows.read_for(starts.since, starts.until)
    if read is None:
        # No window has a time of the range, as between windows with gaps; there are none such yet.
        return RangeScope(since, until, windows, Interval(since, until))
    batch = offset_log.last_committed(generation.checkpoint)
    final_ms = 0 if batch is None else offset_log.watermark_ms(generation.checkpoint, batch)
    final = datetime.fromtimestamp(final_ms / 1000, UTC)
    if read.until > final:
        message = (
            f"Pipeline `{name}` can't follow the range {replaced} of the table that it reads: its "
            f"own windows with rows of it end at {utc(read.until)}, and its live run, whose "
            f"watermark is at {utc(final)}, still has some of them in its state, with the rows as "
            "they were."
        )
        raise StateError(message, RERUN, pipeline=name, field="transform")
    return RangeScope(starts.since, starts.until, windows, read)
