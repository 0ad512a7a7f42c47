"""What a time range covers: the files that have its rows, and whether it can be recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from orchestration.display import duration
from orchestration.generations.range_windows import RERUN, final_time, windows_by
from sources.common.positions import EndPosition, iso, to_ms
from sources.config.file_options import TimeRange
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.errors import InputError, StateError
from sources.files.split_table import FileListing
from sources.files.splits import list_source
from sources.files.time_range import EmptyRangeError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.event_windows import EventWindows, Interval
from sources.serving import require_in_service
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from spark_jobs.target.event_range import Range


class RangePart(NamedTuple):
    """The part of a range that one source of files covers.

    Attributes:
        source: The source.
        since, until: The part: from ``since`` on, before ``until``.
        listing: The splits that may have rows of it, as the files are now.
    """

    source: FileSource
    since: datetime
    until: datetime
    listing: FileListing


@dataclass(frozen=True)
class RangeScope:
    """What recomputing a range covers: rows of the table, and the rows of history they come from.

    Attributes:
        since, until: The range: from ``since`` on, before ``until``.
        windows: The windows by which the transform groups rows: the range has those that start in
            it. None if it passes on single rows.
        read: Event times of the rows of history that the rows of the range are computed from.
    """

    since: datetime
    until: datetime
    windows: EventWindows | None
    read: Interval

    @property
    def why(self) -> str | None:
        """Which rows around the range are read, and why: a sentence; None if none are; computed."""
        if self.windows is None:
            return None
        length = duration(self.windows.length_us / 1e6)
        return (
            f"A window of {length} belongs to the range if it starts in it, so rows from "
            f"{shown(self.read.since)} until {shown(self.read.until)} are read."
        )

    def where(self, event_time: str) -> Range:
        """Return the range as it selects rows of the table.

        Args:
            event_time: The column of the event time, which a table without windows has.
        """
        if self.windows is None:
            return Range(event_time, self.since, self.until)
        values = self.windows.in_column(self.since, self.until)
        return Range(self.windows.column, values.since, values.until, self.windows.field)


def require_fit(context: PipelineContext, since: datetime, until: datetime) -> RangeScope:
    """Return what a range covers; refuse one whose replacement would lose or duplicate rows.

    Args:
        context: The serving generation.
        since: The first event time of the range; for windows, their first start.
        until: The first event time after it.

    Raises:
        InputError: The range is empty, or ends after the time through which history is complete, or
            after windows to which the live run may have added rows.
        StateError: A range can't be recomputed on its own (rows that are merged without windows, a
            transform that keeps other state than windows of event time, or a bounded topic),
            history is not read to its end yet, or another generation serves in this one's place.
    """
    pipeline, generation = context.pipeline, context.generation
    if since >= until:
        message = f"The range from {shown(since)} until {shown(until)} is empty."
        hint = "Choose an `until` that is later than `since`."
        raise InputError(message, hint, pipeline=pipeline.name, field="until")
    known = read_transforms(generation)
    is_stateful = bool(known and known[-1].operators)
    if known and not is_stateful:
        _require_append(pipeline)
    require_in_service(context.loaded, generation)
    ends = [
        _require_end(context, source)
        for source in pipeline.sources
        if source.boundedness is Boundedness.BOUNDED
    ]
    windows = windows_by(context) if is_stateful else None
    if windows is not None:
        return _scope_of_windows(context, ends, windows, since, until)
    _require_append(pipeline)
    if ends and ends[-1].source == last_files(context.loaded).name:
        _require_complete(context, ends[-1], since, until)
    return RangeScope(since, until, None, Interval(since, until))


def _require_append(pipeline: Pipeline) -> None:
    """Refuse a pipeline that merges single rows."""
    sink = pipeline.sink
    if sink.mode == "append":
        return
    is_copy = sink.deleted is not None
    why = (
        "an earlier change of a row may lie before the range, and a later one in the topic"
        if is_copy
        else "the version of a row before the range would have to come back where the files of the "
        "range lack it now"
    )
    message = (
        f"Pipeline `{pipeline.name}` merges rows by key (`sink.mode: {sink.mode}`) without windows "
        f"of event time, so a range of its target is not the result of a range of its files: {why}."
    )
    raise StateError(message, RERUN, pipeline=pipeline.name, field="sink.mode")


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
        hint = "Run it to its end with `hybrid run`, then repeat the backfill."
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
        f"{shown(until)}: later rows come from the live run, not from files."
    )
    hint = f"Set `until` to {complete} or earlier."
    if to_ms(since) > end.complete_through_ms:
        hint = (
            f"Choose a range before {complete}. What the live run delivered is recomputed "
            "with the whole table only: `hybrid rerun`."
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
            f"No window starts from {shown(since)} until {shown(until)}: windows of {length} start "
            f"every {slide}."
        )
        hint = f"Choose a range of {slide} or more."
        raise InputError(message, hint, pipeline=context.pipeline.name, field="until")
    final = final_time(context, ends[-1])
    if read.until <= final.moment:
        return RangeScope(since, until, windows, read)
    why = (
        f"history of generation {name} left the watermark {shown(final.moment)} to the live run, "
        "which still adds rows to windows that end later, and those rows are in no file"
        if final.is_watermark
        else f"history of generation {name} is complete before {shown(final.moment)} only: later "
        "rows come from the live run, not from files"
    )
    message = f"The last window of the range ends at {shown(read.until)}, but {why}."
    latest = windows.latest_until(final.moment)
    hint = f"Set `until` to {shown(latest)} or earlier."
    if latest <= since:
        hint = (
            f"Choose a range before {shown(latest)}. Later windows are recomputed with the whole "
            "table only: `hybrid rerun`."
        )
    raise InputError(message, hint, source=ends[-1].source, generation=name, field="until")


def last_files(loaded: LoadedPipeline) -> FileSource:
    """Return the last source of a pipeline that reads files; the pipeline has at least one.

    Raises:
        IndexError: It has none.
    """
    return [each for each in loaded.pipeline.sources if isinstance(each, FileSource)][-1]


def parts_of(loaded: LoadedPipeline, since: datetime, until: datetime) -> Iterator[RangePart]:
    """Yield the part of a range of event times that each bounded source of files covers.

    Sources whose files have no rows of the range are left out.

    Args:
        loaded: The pipeline.
        since: The first event time of the range.
        until: The first event time after it.

    Raises:
        InputError: No file matches a source's globs, or a file can't be read.
        UnavailableError: The store does not answer.
    """
    for source in loaded.pipeline.sources:
        if not isinstance(source, FileSource) or source.discovery_interval is not None:
            continue
        declared = source.time_range
        begin = since if declared.since is None else max(since, declared.since)
        end = until if declared.until is None else min(until, declared.until)
        if begin >= end:
            continue
        limits = TimeRange.model_construct(since=begin, until=end)
        try:
            listing = list_source(loaded, source.model_copy(update={"time_range": limits}))
        except EmptyRangeError:
            continue
        yield RangePart(source, begin, end, listing)


def parts_in(context: PipelineContext, scope: RangeScope) -> list[RangePart]:
    """Return the part of what a range reads that each bounded source of files covers.

    Args:
        context: The serving generation.
        scope: What the range covers.

    Raises:
        InputError: As :func:`parts_of`.
        StateError: A window would be computed from the rows of two sources, and dropped or kept by
            what it contains after the first of them.
        UnavailableError: The store does not answer.
    """
    parts = list(parts_of(context.loaded, scope.read.since, scope.read.until))
    if scope.windows is None or not scope.windows.is_selective or len(parts) <= 1:
        return parts
    names = " and ".join(f"`{part.source.name}`" for part in parts)
    message = (
        f"Rows from {shown(scope.read.since)} until {shown(scope.read.until)} are in the sources "
        f"{names}, which are read one after the other, and the transform selects windows by what "
        "they contain: one that is selected after the first source, and would not be after the "
        "last, would stay."
    )
    hint = "Choose ranges whose windows lie in one of the sources."
    raise StateError(message, hint, pipeline=context.pipeline.name, field="since")


def shown(moment: datetime) -> str:
    """Return a time as messages show it, such as ``2024-03-01T00:00:00Z``."""
    return iso(to_ms(moment))
