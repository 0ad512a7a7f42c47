"""Files that a range's backfill reads, by source; damaged ones of other times are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from hybrid_extensions.ranges.files.damaged import is_of_other_times
from hybrid_extensions.ranges.range_scope import RangeScope, utc
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import InputError, StateError
from sources.files.listing.source_listing import list_source
from sources.files.listing.split_table import FileListing
from sources.files.time_range import EmptyRangeError
from sources.formats.parquet.footer import UnreadableFileError
from sources.planning.context import PipelineContext


class RangePart(NamedTuple):
    """Part of a range that one file source covers.

    Attributes:
        source: The source.
        since, until: The part: from ``since`` (inclusive) until ``until`` (exclusive).
        listing: The splits that may have rows of the part, by the files as they are now.
        damaged: Paths of files that can't be read, and that have no row of the part by the plan.
    """

    source: FileSource
    since: datetime
    until: datetime
    listing: FileListing
    damaged: list[str]


def parts_of(context: PipelineContext, since: datetime, until: datetime) -> Iterator[RangePart]:
    """Yield the part of a range that each bounded file source covers; lists their files.

    Sources whose files have no rows of the range are left out, and so are damaged files whose rows
    are of other times by the plan.

    Args:
        context: The serving generation.
        since: First event time of the rows to read (inclusive).
        until: First event time after them (exclusive).

    Raises:
        InputError: A file has other columns; or can't be read, and may have rows of the range.
        StateError: The table of planned splits is missing.
        UnavailableError: A storage does not answer.
    """
    for source in context.pipeline.sources:
        if not isinstance(source, FileSource) or source.discovery_interval is not None:
            continue
        declared = source.time_range
        begin = since if declared.since is None else max(since, declared.since)
        end = until if declared.until is None else min(until, declared.until)
        if begin >= end:
            continue
        limits = TimeRange.model_construct(since=begin, until=end)
        part = source.model_copy(update={"time_range": limits})
        damaged: list[str] = []
        try:
            listing = _list(context, part, damaged)
        except EmptyRangeError:
            continue
        except InputError as error:
            raise _of_range(error, source.name) from None
        if listing is not None:
            yield RangePart(source, begin, end, listing, damaged)


def _list(context: PipelineContext, part: FileSource, damaged: list[str]) -> FileListing | None:
    """List the files of a part; add to ``damaged`` those that are left out. None without others."""
    while True:
        try:
            if not damaged:
                return list_source(context.loaded, part)
            return list_source(context.loaded, part, pa.chunked_array([damaged], pa.string()))
        except UnreadableFileError as error:
            if not is_of_other_times(context, part, error.fields["file"]):
                raise
            damaged.append(error.fields["file"])


def _of_range(error: InputError, source: str) -> InputError:
    """Return an error about a file, which may be of another range, with the way out of this one."""
    why = f"To find the rows of a range, all files of `{source}` are looked at."
    if isinstance(error, UnreadableFileError):
        why = "It may have rows of the range."
    hint = error.hint.replace("Then plan again (`hybrid plan P`)", "Then recompute the range again")
    return type(error)(f"{error.message} {why}", hint, **error.fields)


def left_out_in_words(parts: Sequence[RangePart]) -> str | None:
    """Return a sentence that names damaged files which are left out; None if there are none."""
    paths = [path for part in parts for path in part.damaged]
    if not paths:
        return None
    return (
        f"Left out, as by the plan their rows are of other times: {', '.join(paths)}. They can't "
        "be read: write them again before those times are recomputed."
    )


def parts_in(context: PipelineContext, scope: RangeScope) -> list[RangePart]:
    """Return the parts that the bounded file sources contribute to a range's backfill; maybe none.

    Args:
        context: The serving generation.
        scope: The range.

    Raises:
        StateError: The transform selects windows, and those of the range lie in several sources.
        InputError: Files can't be listed or read.
        UnavailableError: A store does not answer.
    """
    parts = list(parts_of(context, scope.read.since, scope.read.until))
    if scope.windows is None or not scope.windows.is_selective or len(parts) <= 1:
        return parts
    names = " and ".join(f"`{part.source.name}`" for part in parts)
    message = (
        f"Rows from {utc(scope.read.since)} until {utc(scope.read.until)} are in the sources "
        f"{names}, which are read one after the other, and the transform selects windows by what "
        "they contain: one that is selected after the first source, and would not be after the "
        "last, would stay."
    )
    hint = "Choose ranges whose windows lie in one of the sources."
    raise StateError(message, hint, pipeline=context.pipeline.name, field="since")
