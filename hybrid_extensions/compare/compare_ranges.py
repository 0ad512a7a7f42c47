"""Scheduled comparison with the database, range by range: rate, time limit, where it continues.

Each call continues where the last one stopped, so that a large table is compared over days.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hybrid_extensions.cdc.compared.compared_table import ComparedTable, compared_table
from hybrid_extensions.cdc.compared.kept_compare import (
    ComparedRange,
    KeptCompare,
    keep_compare,
    read_compare,
)
from hybrid_extensions.cdc.compared.key_range import KEYS, RANGE_ROWS, KeyRange
from hybrid_extensions.compare.compare_range import LiveRun, RangeComparison, compare_range
from hybrid_extensions.compare.compared_sides import rows_of
from hybrid_extensions.compare.declare import CompareSection
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, leaving
from sources.state.generation import Generation


@leaving("The table was not changed.")
def compare_ranges(
    loaded: LoadedPipeline,
    generation: Generation,
    look_at_run: Callable[[], LiveRun],
    say: Callable[[str], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> KeptCompare:
    """Compare a table with the database range by range, until the declared time is up.

    It continues where the last call stopped, reads at most ``compare.rows_per_second``, and ends
    earlier if the table ends. Each range's result is written to the state at once. At least one
    range is compared, unless rows can't be judged. After the table's end the next call begins
    again.

    Args:
        loaded: The pipeline.
        generation: State of its generation, which knows up to where the table was compared.
        look_at_run: Returns the present state of the live run that writes the target.
        say: Called with a line for each range.
        wait: Called with seconds to wait.

    Returns:
        The results of all ranges, as they are kept; ``postponed`` says why the call ended early if
        rows can't be judged now.

    Raises:
        InputError: The pipeline declares no ``compare`` any more, or captures no table; or one of
            the two tables can't be read.
        StateError: The state can't be read or written.
        UnavailableError: The database or a store does not answer.
    """
    if (declared := loaded.section(CompareSection).compare) is None:
        message = f"Pipeline `{loaded.pipeline.name}` declares no `compare`."
        hint = (
            "Declare `compare`, with the times at which to compare; or compare the whole table "
            "now: `hybrid compare P`."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field="compare")
    asked, key = compared_table(loaded), loaded.pipeline.sink.key
    begun, rows_read = time.monotonic(), 0
    while True:
        before = read_compare(generation)
        kept = before or KeptCompare(begun_ms=now_ms(), ranges=[])
        if kept.at is None:
            kept = kept.model_copy(update={"begun_ms": now_ms()})
        judged = RangeComparison(None, look_at_run().why_not, 0)
        if judged.why_not is None:
            within = _next_range(asked, key[0], kept.at)
            judged = compare_range(asked, key, within, look_at_run, wait)
        rows_read += judged.rows_read
        # Another process may have compared meanwhile: its results are continued from.
        is_ours = read_compare(generation) == before
        if is_ours and judged.found is None:
            kept = kept.model_copy(update={"postponed": judged.why_not})
            keep_compare(generation, kept)
            return kept
        if is_ours and (made := judged.found) is not None:
            kept = _after(kept, made, KEYS.get(within.kind, str))
            keep_compare(generation, kept)
            say(f"{asked.table} from {made.first} to {made.until}: {made.differing} keys differ")
        used_s = time.monotonic() - begun
        if (is_ours and kept.at is None) or used_s >= declared.within.total_seconds():
            return read_compare(generation) or kept
        wait(max(rows_read / declared.rows_per_second - used_s, 0))


def _next_range(asked: ComparedTable, column: str, first: str | None) -> KeyRange:
    """Return the range that begins with a value of the key's first column."""
    kind = asked.columns.get(column, "").partition("(")[0]
    within = KeyRange(column, kind, first)
    if kind not in KEYS:
        return within
    there = asked.names.get(column, column)
    reader = rows_of(asked.dsn)
    name = reader.quote(there)
    until = reader.bound_after(asked.dsn, asked.table, there, within.sql(name), RANGE_ROWS)
    if until is not None and until == first:
        # More rows than that have this value, as the first part of a longer key.
        beyond = within.sql_beyond(name)
        until = reader.bound_after(asked.dsn, asked.table, there, beyond, 0)
    return within._replace(until=until)


def _after(kept: KeptCompare, made: ComparedRange, parse: Callable[[str], Any]) -> KeptCompare:
    """Return what is kept once one more range was compared."""
    ranges = [*(each for each in kept.ranges if not _is_covered(each, kept, made, parse)), made]
    is_end = made.until is None
    return KeptCompare(
        begun_ms=kept.begun_ms,
        at=made.until,
        finished_ms=made.at_ms if is_end else kept.finished_ms,
        ranges=ranges,
        repaired_ms=kept.repaired_ms,
    )


def _is_covered(
    each: ComparedRange, kept: KeptCompare, made: ComparedRange, parse: Callable[[str], Any]
) -> bool:
    """Return whether a range of an earlier pass was compared again by this one, as a whole."""
    if each.at_ms >= kept.begun_ms:
        return False
    if made.until is None:
        return True
    return each.until is not None and parse(each.until) <= parse(made.until)
