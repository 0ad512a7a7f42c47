"""Adjacent ranges that one run recomputes together, except those whose files are damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import groupby

from hybrid_extensions.ranges.backfill import RangeResult, backfill, look
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.formats.parquet.footer import UnreadableFileError

Ranges = Mapping[str, tuple[datetime, datetime]]
"""Begin (inclusive) and end (exclusive) of ranges by name, in order; each begins where one ends."""


def backfill_adjacent(
    loaded: LoadedPipeline,
    ranges: Ranges,
    run_id: str,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
) -> Iterator[tuple[list[str], RangeResult]]:
    """Recompute adjacent ranges together, except those of which a damaged file may have rows.

    Args:
        loaded: The pipeline.
        ranges: The ranges, at least one.
        run_id: Idempotency key, as of :func:`.backfill.backfill`.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.

    Yields:
        Names of ranges that were recomputed together, and the result.

    Raises:
        UnreadableFileError: A file is damaged; names it, and the ranges that are left as they are.
            All others are recomputed by then.
        HybridError: As of :func:`.backfill.backfill`.
    """
    try:
        yield list(ranges), _backfill(loaded, ranges, run_id, say, by)
        return
    except UnreadableFileError as error:
        if len(ranges) == 1:
            raise
        say(f"{error.message} The ranges without it are recomputed.")
    damaged: dict[str, UnreadableFileError] = {}
    for name, (since, until) in ranges.items():
        try:
            look(loaded, since, until)
        except UnreadableFileError as error:
            damaged[name] = error
    for is_damaged, names in groupby(ranges, damaged.__contains__):
        if not is_damaged:
            part = {name: ranges[name] for name in names}
            key = f"{run_id}-{next(iter(part.values()))[0]:%Y%m%dT%H%M}"
            yield list(part), _backfill(loaded, part, key, say, by)
    if damaged:
        raise _of_ranges(damaged, len(ranges))


def _backfill(
    loaded: LoadedPipeline,
    ranges: Ranges,
    run_id: str,
    say: Callable[[str], None],
    by: str | None,
) -> RangeResult:
    spans = list(ranges.values())
    return backfill(loaded, spans[0][0], spans[-1][1], run_id, say, by)


def _of_ranges(damaged: Mapping[str, UnreadableFileError], of: int) -> UnreadableFileError:
    """Return the first error, with the damaged file of each range that is left as it was."""
    first = next(iter(damaged.values()))
    files = {name: error.fields["file"] for name, error in damaged.items()}
    left = "; ".join(f"{name}: {file}" for name, file in files.items())
    done = f"Of {counted(of, 'range')} {of - len(damaged):,} were recomputed."
    message = f"{first.message} {done} Left as they were, each for its damaged file: {left}."
    return UnreadableFileError(message, first.hint, **first.fields)
