"""Files with the rows that a range's backfill reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from hybrid_extensions.ranges.scope import RangeScope, utc
from sources.config.loader import LoadedPipeline
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError, StateError, error_of
from sources.files.listing.split_table import FileListing
from sources.files.listing.splits import list_source
from sources.files.time_range import EmptyRangeError
from sources.planning.context import PipelineContext


class RangePart(NamedTuple):
    """Part of a range that one file source covers.

    Attributes:
        source: The source.
        since, until: The part: from ``since`` (inclusive) until ``until`` (exclusive).
        listing: The splits that may have rows of the part, by the files as they are now.
    """

    source: FileSource
    since: datetime
    until: datetime
    listing: FileListing


def parts_of(loaded: LoadedPipeline, since: datetime, until: datetime) -> Iterator[RangePart]:
    """Yield the part of a range that each bounded file source covers; lists their files.

    Sources whose files have no rows of the range are left out.

    Raises:
        InputError: A file can't be read, or has other columns.
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
        except InputError as error:
            raise _of_range(error, source.name) from None
        yield RangePart(source, begin, end, listing)


def _of_range(error: InputError, source: str) -> HybridError:
    """Return an error about a file, which may be of another range, with the way out of this one."""
    told = error.report()
    why = f"To find the rows of a range, all files of `{source}` are looked at."
    hint = told.hint.replace("Then plan again (`hybrid plan P`)", "Then recompute the range again")
    return error_of(told.model_copy(update={"message": f"{told.message} {why}", "hint": hint}))


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
    parts = list(parts_of(context.loaded, scope.read.since, scope.read.until))
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
