"""Files that reach further in time than by the plan: rows of a range may have moved to another.

A row whose time was corrected is in the files under its new time alone. A table whose range of the
old time, or of the new one, is not recomputed has it twice, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import pyarrow as pa

from hybrid_extensions.ranges.files.range_files import RangePart
from hybrid_extensions.ranges.range_scope import utc
from sources.common.times import EPOCH
from sources.files.listing.source_listing import list_splits
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.planning.plan import require_plan
from sources.storage.base import FILES

_EXACT = ("parquet", "orc")
_SHOWN = 3


class _Times(NamedTuple):
    """First and last event time of a file's rows, and what tells its present content from another.

    Attributes:
        first, last: The times.
        content: Size, modification time and ETag.
    """

    first: datetime
    last: datetime
    content: tuple[object, ...]


def moved_in_words(
    context: PipelineContext, parts: Sequence[RangePart], since: datetime, until: datetime
) -> str | None:
    """Return a sentence about files of a range that reach further than they did; None without any.

    Of files whose event times all are known: Parquet and ORC, but for those of tables.

    Args:
        context: The serving generation.
        parts: What the sources contribute to the range.
        since: First event time that is read (inclusive).
        until: First event time after it (exclusive).

    Raises:
        InputError: A file can't be read.
        StateError: The table of planned splits is missing.
        UnavailableError: A storage does not answer.
    """
    moved = [text for part in parts for text in _moved(context, part, since, until)]
    if not moved:
        return None
    more = f", and {len(moved) - _SHOWN:,} more" if len(moved) > _SHOWN else ""
    return (
        "Warning: files were written again, and reach further than when they were planned: "
        f"{'; '.join(moved[:_SHOWN])}{more}. A row whose time was corrected is missing, or there "
        "twice, until the ranges of both times are recomputed."
    )


def _moved(
    context: PipelineContext, part: RangePart, since: datetime, until: datetime
) -> Iterator[str]:
    if part.source.is_table or part.source.format not in _EXACT:
        return
    plan = require_plan(context.generation)
    history = history_of(context.generation, plan, part.source.name).parts
    planned: dict[str, _Times] = {}
    for files in history:
        planned |= _times(read_splits(files, context.generation))
    listed = part.listing.splits.select(FILES.names).to_pylist()
    again = {
        row["path"]: row
        for row in listed
        if row["path"] in planned and _content(row) != planned[row["path"]].content
    }
    if not again:
        return
    found = pa.Table.from_pylist([*again.values()], FILES)
    column, stores = context.pipeline.event_time.column, context.pipeline.stores
    for path, now in _times(list_splits(part.source, column, found, stores).splits).items():
        was = planned[path]
        is_further = now.first < was.first or now.last > was.last
        if is_further and (now.first < since or now.last >= until):
            yield (
                f"{path} has rows from {utc(now.first)} to {utc(now.last)}, by the plan from "
                f"{utc(was.first)} to {utc(was.last)}"
            )


def _times(splits: pa.Table) -> dict[str, _Times]:
    """Return the event times of files by path; those without any are left out."""
    found: dict[str, _Times] = {}
    for row in splits.to_pylist():
        if row["event_min_us"] is None or row["event_max_us"] is None:
            continue
        first, last = (
            EPOCH + timedelta(microseconds=row[f"event_{end}_us"]) for end in ("min", "max")
        )
        known = found.get(row["path"], _Times(first, last, ()))
        found[row["path"]] = _Times(min(first, known.first), max(last, known.last), _content(row))
    return found


def _content(row: dict[str, object]) -> tuple[object, ...]:
    return row["size"], row["etag"] or row["modified_ns"]
