"""What a time range covers: the files that have its rows, and whether it can be recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sources.common.positions import iso, to_ms
from sources.config.file_options import TimeRange
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.files.split_table import FileListing
from sources.files.splits import list_source
from sources.files.time_range import EmptyRangeError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.serving import require_in_service
from spark_jobs.checkpoint.transform_compatibility import read_transforms


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


def require_fit(context: PipelineContext, since: datetime, until: datetime) -> None:
    """Refuse a range whose replacement would lose or duplicate rows.

    Args:
        context: The serving generation.
        since: The first event time of the range.
        until: The first event time after it.

    Raises:
        InputError: The range is empty, or ends after the time through which history is complete.
        StateError: A range can't be recomputed on its own (``sink.mode: merge``, a transform that
            keeps state, or a bounded topic), history is not read to its end yet, or another
            generation serves in this one's place.
    """
    pipeline, generation = context.pipeline, context.generation
    if since >= until:
        message = f"The range from {shown(since)} until {shown(until)} is empty."
        hint = "Choose an `until` that is later than `since`."
        raise InputError(message, hint, pipeline=pipeline.name, field="until")
    if pipeline.sink.mode != "append":
        message = (
            f"Pipeline `{pipeline.name}` merges rows by key (`sink.mode: {pipeline.sink.mode}`), "
            "so a range of its target is not the result of a range of its files; a backfill of a "
            "range needs `sink.mode: append`."
        )
        hint = "Recompute the whole table as a new generation: `hybrid rerun`."
        raise StateError(message, hint, pipeline=pipeline.name, field="sink.mode")
    require_in_service(context.loaded, generation)
    known = read_transforms(generation)
    if known and known[-1].operators:
        operators = "; ".join(known[-1].operators)
        message = (
            f"`transform: {pipeline.transform.name}` keeps state ({operators}): a range can't be "
            "recomputed without the rows before it."
        )
        hint = "Recompute the whole table as a new generation: `hybrid rerun`."
        raise StateError(message, hint, pipeline=pipeline.name, field="transform")
    for source in pipeline.sources:
        if source.boundedness is Boundedness.BOUNDED:
            _require_in_files(context, source, since, until)


def _require_in_files(
    context: PipelineContext, source: FileSource | KafkaSource, since: datetime, until: datetime
) -> None:
    """Refuse a range whose rows are not all in files that were read to the end.

    Args:
        context: The serving generation.
        source: A bounded source of it.
        since: The first event time of the range.
        until: The first event time after the range.
    """
    name = context.generation.name
    if not isinstance(source, FileSource):
        message = (
            f"Source `{source.name}` is a bounded topic: its rows are in no file, and a backfill "
            "of a range reads files only."
        )
        hint = "Recompute the whole table as a new generation: `hybrid rerun`."
        raise StateError(message, hint, source=source.name)
    if (end := context.switch_state.end_of(source.name)) is None:
        message = (
            f"Generation {name} has not read `{source.name}` to its end yet; a range can be "
            "recomputed after that."
        )
        hint = "Run it to its end with `hybrid run`, then repeat the backfill."
        raise StateError(message, hint, source=source.name, generation=name)
    if to_ms(until) - 1 > end.complete_through_ms and source is last_files(context.loaded):
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
        raise InputError(message, hint, source=source.name, generation=name, field="until")


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


def shown(moment: datetime) -> str:
    """Return a time as messages show it, such as ``2024-03-01T00:00:00Z``."""
    return iso(to_ms(moment))
