"""Scope of a range: which rows it covers, and why ranges of a pipeline can't be recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hybrid_extensions.generations.files.file_rows import FileReader
from hybrid_extensions.ranges.table.event_range import Range
from hybrid_extensions.ranges.windows import RERUN, final_time, windows_by
from sources.common.durations import duration
from sources.common.positions import EndPosition
from sources.common.times import iso, to_ms
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, StateError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.event_windows import EventWindows, Interval
from sources.planning.transform_analysis import read_analysis
from sources.serving import require_in_service, target_of
from sources.state.adopted_table import read_adopted
from sources.storage.tables.delta_log import has_log
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from spark_jobs.table.delta_table import open_table


@dataclass(frozen=True)
class RangeScope:
    """Scope of a backfill: rows of the table, and the rows of history that they come from.

    Attributes:
        since, until: The range: from ``since`` (inclusive) until ``until`` (exclusive).
        windows: The windows by which the transform groups rows: the range has those that start in
            it. None if it passes on single rows.
        read: Event times of the rows of history that the rows of the range are computed from.
        order: Columns that order the versions of a row, of which the table has the latest one;
            empty if rows are not merged one by one.
    """

    since: datetime
    until: datetime
    windows: EventWindows | None
    read: Interval
    order: Sequence[str] = ()

    @property
    def is_of_single_rows(self) -> bool:
        """Whether rows are appended one by one: neither in windows, nor merged in order."""
        return self.windows is None and not self.order

    @property
    def why(self) -> str | None:
        """Sentence about rows around the range that are read, too; None if there are none."""
        if self.windows is None:
            return None
        length = duration(self.windows.length_us / 1e6)
        return (
            f"A window of {length} belongs to the range if it starts in it, so rows from "
            f"{utc(self.read.since)} until {utc(self.read.until)} are read."
        )

    def where(self, event_time: str) -> Range:
        """Return the range as a filter on rows of the table; begin inclusive, end exclusive.

        It is on the column ``event_time``. In a table of windows it is on the column that has the
        windows instead, with the times that the column has (starts or ends) for windows that start
        in the range.

        Args:
            event_time: Name of the event-time column; without effect in a table of windows.
        """
        if self.windows is None:
            return Range(event_time, self.since, self.until)
        values = self.windows.in_column(self.since, self.until)
        return Range(self.windows.column, values.since, values.until, self.windows.field)


def require_fit(context: PipelineContext, since: datetime, until: datetime) -> RangeScope:
    """Return a range's scope; refuse a range whose backfill would lose or duplicate rows.

    May start a short Spark process that analyzes the transform, if the kept analysis is outdated.

    Args:
        context: The serving generation.
        since: First event time of the range (inclusive); for windows, their first start.
        until: First event time after the range (exclusive).

    Raises:
        InputError: The range is empty, has no window, or ends after the time through which history
            is complete.
        StateError: Rows of this pipeline can't be recomputed by a range, history is not read to its
            end, or another generation serves.
        UnavailableError: A store does not answer.
    """
    pipeline, generation = context.pipeline, context.generation
    if since >= until:
        message = f"The range from {utc(since)} until {utc(until)} is empty."
        hint = "Choose an `until` that is later than `since`."
        raise InputError(message, hint, pipeline=pipeline.name, field="until")
    if (adopted := read_adopted(generation)) is not None:
        message = (
            f"Generation {generation.name} has adopted its table at version "
            f"{adopted.table_version}: which of its rows are of history is not known, so no range "
            "of them can be replaced."
        )
        raise StateError(message, RERUN, pipeline=pipeline.name, generation=generation.name)
    if pipeline.sink.history is not None:
        message = (
            f"The table of pipeline `{pipeline.name}` has every version of a row "
            f"(`sink.history: {pipeline.sink.history}`), and where one ends is said by versions "
            "beyond the range."
        )
        raise StateError(message, RERUN, pipeline=pipeline.name, field="sink.history")
    known = read_transforms(generation)
    is_stateful = bool(known and known[-1].operators)
    if known and not is_stateful:
        _require_versions(pipeline)
    require_in_service(context.loaded, generation)
    if pipeline.growing_folder is not None and not pipeline.bounded_files:
        raise _without_history(pipeline)
    ends = [
        _require_end(context, source)
        for source in pipeline.sources
        if source.boundedness is Boundedness.BOUNDED
    ]
    windows = windows_by(context) if is_stateful else None
    if windows is not None:
        return _scope_of_windows(context, ends, windows, since, until)
    _require_versions(pipeline)
    _require_same_time(context)
    if ends and pipeline.followed and pipeline.growing_folder is None:
        _require_complete(context, ends[-1], since, until)
    order = pipeline.sink.order
    return RangeScope(since, until, None, Interval(since, until), order)


def require_exchangeable(context: PipelineContext) -> None:
    """Refuse a table of which no rows of single files can be exchanged, before any are computed.

    Raises:
        StateError: It has deletion vectors or mapped columns.
        InputError: It can't be read.
        UnavailableError: The table's store does not answer.
    """
    table = target_of(context.loaded, context.generation.name)
    if has_log(table):
        FileReader(open_table(table))


def _without_history(pipeline: Pipeline) -> StateError:
    """Return (do not raise) the error about a pipeline whose only source is read without end."""
    source = pipeline.sources[-1]
    message = (
        f"Pipeline `{pipeline.name}` has no bounded source of files, from which a range could be "
        f"recomputed: `{source.name}` is read without end."
    )
    hint = RERUN
    if isinstance(source, FileSource) and source.is_table:
        hint = (
            "Recompute the range in the table that it follows; then `hybrid follow P` recomputes "
            f"what was made of it. {RERUN}"
        )
    return StateError(message, hint, pipeline=pipeline.name, source=source.name)


def _require_versions(pipeline: Pipeline) -> None:
    """Refuse a pipeline that merges single rows whose latest versions a range does not tell."""
    sink = pipeline.sink
    if sink.mode == "append":
        return
    if not sink.order:
        why = "without `sink.sequence` it is unknown which version of a row is the latest"
    elif sink.deleted is not None or pipeline.follows_truncates:
        why = (
            "rows that were deleted are not in the table, so it is unknown whether a change of the "
            "range came after"
        )
    elif sink.unchanged is not None:
        why = f"values that `sink.unchanged: {sink.unchanged}` names may be of changes before it"
    elif pipeline.captures_tables:
        why = "its files are a snapshot of a database, whose rows are of one moment"
    else:
        return
    message = (
        f"Pipeline `{pipeline.name}` merges rows by key (`sink.mode: {sink.mode}`), and a range of "
        f"its target is not the result of a range of its files: {why}."
    )
    raise StateError(message, RERUN, pipeline=pipeline.name, field="sink.mode")


def _require_same_time(context: PipelineContext) -> None:
    """Refuse a transform that is known to compute the event time of its rows."""
    pipeline, found = context.pipeline, read_analysis(context.generation)
    column = pipeline.event_time.column
    made = {each.name: each.inputs for each in (found and found.columns) or ()}
    if found is None or found.same is None or column in found.same or made.get(column) is None:
        return
    message = (
        f"`transform: {pipeline.transform.name}` computes the event time `{column}` of its rows, "
        "so rows of the table within the range may be made of rows of the files outside of it."
    )
    raise StateError(message, RERUN, pipeline=pipeline.name, column=column)


def _require_end(context: PipelineContext, source: FileSource | KafkaSource) -> EndPosition:
    """Return the end position of a bounded source; refuse one that is not files, or not read."""
    name = context.generation.name
    if not isinstance(source, FileSource):
        message = (
            f"Source `{source.name}` is a bounded topic: its rows are in no file, and a backfill "
            "of a range reads files only."
        )
        raise StateError(message, RERUN, source=source.name)
    if (end := context.switch_state.end_of(source.name)) is None:
        message = (
            f"Generation {name} has not read `{source.name}` to its end yet; a range can be "
            "recomputed after that."
        )
        hint = "Run it to its end with `hybrid run P`, then repeat the backfill."
        raise StateError(message, hint, source=source.name, generation=name)
    return end


def _require_complete(
    context: PipelineContext, end: EndPosition, since: datetime, until: datetime
) -> None:
    """Refuse a range whose rows are not all in files that were read to the end."""
    name = context.generation.name
    if to_ms(until) - 1 <= end.complete_through_ms:
        return
    complete = iso(end.complete_through_ms)
    message = (
        f"History of generation {name} is complete through {complete}, but the range ends at "
        f"{utc(until)}: later rows come from the live run, not from files."
    )
    hint = f"Set `until` to {complete} or earlier, then recompute the range again."
    if to_ms(since) > end.complete_through_ms:
        hint = (
            f"Choose a range before {complete}. What the live run delivered is recomputed with the "
            "whole table only: `hybrid rerun P`."
        )
    raise InputError(message, hint, source=end.source, generation=name, field="until")


def _scope_of_windows(
    context: PipelineContext,
    ends: Sequence[EndPosition],
    windows: EventWindows,
    since: datetime,
    until: datetime,
) -> RangeScope:
    """Return what a range of windows covers; refuse one with windows that are not final."""
    name = context.generation.name
    if not ends:
        message = f"Pipeline `{context.pipeline.name}` has no bounded source of files to read."
        raise StateError(message, RERUN, pipeline=context.pipeline.name)
    length, slide = (duration(each / 1e6) for each in (windows.length_us, windows.slide_us))
    read = windows.read_for(since, until)
    if read is None:
        message = (
            f"No window starts from {utc(since)} until {utc(until)}: windows of {length} start "
            f"every {slide}."
        )
        hint = f"Choose a range of {slide} or more."
        raise InputError(message, hint, pipeline=context.pipeline.name, field="until")
    final = final_time(context, ends[-1])
    if read.until <= final.moment:
        return RangeScope(since, until, windows, read)
    why = (
        f"history of generation {name} left the watermark {utc(final.moment)} to the live run, "
        "which still adds rows to windows that end later, and those rows are in no file"
        if final.is_watermark
        else f"history of generation {name} is complete before {utc(final.moment)} only: later "
        "rows come from the live run, not from files"
    )
    message = f"The last window of the range ends at {utc(read.until)}, but {why}."
    latest = windows.latest_until(final.moment)
    hint = f"Set `until` to {utc(latest)} or earlier, then recompute the range again."
    if latest <= since:
        hint = (
            f"Choose a range before {utc(latest)}. Later windows are recomputed with the whole "
            "table only: `hybrid rerun P`."
        )
    raise InputError(message, hint, source=ends[-1].source, generation=name, field="until")


def utc(moment: datetime) -> str:
    """Return a time with a zone as text for messages, such as ``2024-03-01T00:00:00Z``."""
    return iso(to_ms(moment))
