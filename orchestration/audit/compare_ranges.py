"""Comparison of a captured table with its database in ranges of the key, at a limited rate.

It goes on where it stopped, so that a large table is compared over days. Rows that differ only
because they are on their way to the target are looked at again before they count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb

from orchestration.audit.compare_source import compared_table
from orchestration.audit.compared_sides import (
    ComparedTable,
    bound_after,
    compared_sides,
    quote_of,
)
from orchestration.audit.report import EXAMPLES
from orchestration.audit.sql import count_rows
from orchestration.compared_ranges import (
    ComparedRange,
    KeptCompare,
    keep_compare,
    read_compare,
)
from sources.common.positions import now_ms
from sources.common.sql_names import literal, quoted
from sources.config.compare import Compare
from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation

PAUSES_S = (3.0, 10.0, 30.0)
"""Seconds before each look at rows that differ: what is on its way has arrived by then."""
RANGE_ROWS = 500_000
"""Rows of a range: they fit in memory, on both sides."""
_MOST_KEYS = 10_000
_Key = Callable[[str], Any]
_KEYS: Mapping[str, _Key] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "decimal": Decimal,
    "date": date.fromisoformat,
}


class KeyRange(NamedTuple):
    """Rows whose key is in a range; a condition that all databases here take alike.

    Attributes:
        column: First column of the key, by its name in the target.
        kind: Its Spark SQL type, without parameters.
        first: Lowest value, as text; None without one.
        until: First value behind the range; None without one.
    """

    column: str
    kind: str
    first: str | None
    until: str | None = None

    def sql(self, name: str) -> str:
        """Return the condition as SQL.

        Args:
            name: The column, quoted.
        """
        parts = [
            f"{name} {sign} {self._literal(value)}"
            for sign, value in ((">=", self.first), ("<", self.until))
            if value is not None
        ]
        return " AND ".join(parts) or "true"

    def _literal(self, value: str) -> str:
        return f"DATE {literal(value)}" if self.kind == "date" else value


class _Differing(NamedTuple):
    """A key whose rows differ.

    Attributes:
        text: The key, and in which columns they do.
        row: Digest of the row in the database; None if it has none.
    """

    text: str
    row: str | None


def compare_ranges(
    loaded: LoadedPipeline,
    generation: Generation,
    why_not: Callable[[], str | None],
    say: Callable[[str], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> KeptCompare:
    """Compare ranges of a table until the declared time is over, or the table's end is reached.

    Args:
        loaded: The pipeline, with ``compare``.
        generation: State of its generation, which knows up to where the table was compared.
        why_not: Returns why rows can't be judged now, as a live run that is behind; else None.
        say: Called with a line for each range.
        wait: Called with seconds to wait.

    Returns:
        What is known of all ranges, as it is kept.

    Raises:
        InputError: The pipeline captures no table, or one of the two tables can't be read.
        StateError: The state can't be read or written.
    """
    declared = loaded.pipeline.compare or Compare(cron="0 0 * * *")
    asked, key = compared_table(loaded), loaded.pipeline.sink.key
    kind = asked.columns.get(key[0], "").partition("(")[0]
    begun, rows = time.monotonic(), 0
    kept = read_compare(generation) or KeptCompare(begun_ms=now_ms(), ranges=[])
    if kept.at is None:
        kept = kept.model_copy(update={"begun_ms": now_ms()})
    while True:
        if (reason := why_not()) is not None:
            kept = kept.model_copy(update={"postponed": reason})
            keep_compare(generation, kept)
            return kept
        within = KeyRange(key[0], kind, kept.at)
        if kind in _KEYS:
            column = asked.names.get(key[0], key[0])
            where = within.sql(quote_of(asked.dsn)(column))
            until = bound_after(asked, column, where, RANGE_ROWS)
            within = within._replace(until=until)
        made = compare_range(asked, key, within, wait)
        kept = _after(kept, made, _KEYS.get(kind, str))
        keep_compare(generation, kept)
        say(f"{asked.table} from {made.first} to {made.until}: {made.differing} keys differ")
        rows += made.rows
        used_s = time.monotonic() - begun
        if kept.at is None or used_s >= declared.within.total_seconds():
            return kept
        wait(max(rows / declared.rows_per_second - used_s, 0))


def compare_range(
    asked: ComparedTable,
    key: Sequence[str],
    within: KeyRange,
    wait: Callable[[float], None] = time.sleep,
) -> ComparedRange:
    """Compare the rows of a range; those that differ several times, until they count.

    A key counts if the database has the same row at each look, and the target another one.

    Args:
        asked: Both tables.
        key: Columns of the key.
        within: The range.
        wait: Called with seconds to wait.

    Raises:
        InputError: One of the two can't be read.
    """
    rows, differing = _look(asked, key, within)
    for pause_s in PAUSES_S:
        if not differing:
            break
        wait(pause_s)
        _, again = _look(asked, key, within)
        differing = {
            name: again[name]
            for name, before in differing.items()
            if name in again and again[name].row == before.row
        }
    return ComparedRange(
        first=within.first,
        until=within.until,
        at_ms=now_ms(),
        rows=rows,
        differing=len(differing),
        examples=[each.text for each in differing.values()][:EXAMPLES],
    )


def _look(
    asked: ComparedTable, key: Sequence[str], within: KeyRange
) -> tuple[int, dict[str, _Differing]]:
    """Return the number of rows in the database, and the keys whose rows differ, by the key."""
    where = within if within.kind in _KEYS else None
    with compared_sides(asked, where) as (connection, columns):
        rows = count_rows(connection, "source")
        found = _differing(connection, [name for name in key if name in columns], columns)
    return rows, found


def _differing(
    connection: duckdb.DuckDBPyConnection, key: Sequence[str], columns: Sequence[str]
) -> dict[str, _Differing]:
    shown = f"to_json(struct_pack({', '.join(f'{quoted(n)} := {quoted(n)}' for n in key)}))"
    joined = " AND ".join(f"s.{quoted(n)} IS NOT DISTINCT FROM t.{quoted(n)}" for n in key)
    others = [name for name in columns if name not in key]
    names = ", ".join(
        f"CASE WHEN s.{quoted(n)} IS DISTINCT FROM t.{quoted(n)} THEN {literal(n)} END"
        for n in others
    )
    listed = f"concat_ws(', ', {names})" if names else "''"
    query = (
        f"SELECT coalesce(s._key, t._key), s._row, t._row, {listed} FROM "
        f"(SELECT *, {shown}::VARCHAR AS _key, md5(to_json(r)::VARCHAR) AS _row "
        f"FROM only_source r) s FULL JOIN "
        f"(SELECT *, {shown}::VARCHAR AS _key, '' AS _row FROM only_target r) t ON {joined} "
        f"ORDER BY 1 LIMIT {_MOST_KEYS}"
    )
    found = {}
    for name, row, other, columns_text in connection.execute(query).fetchall():
        how = f"differs in {columns_text}"
        if row is None:
            how = "is only in the target"
        elif other is None:
            how = "is only in the database"
        found[name] = _Differing(f"{name} {how}", row)
    return found


def _after(kept: KeptCompare, made: ComparedRange, parse: _Key) -> KeptCompare:
    """Return what is kept once one more range was compared."""
    ranges = [*(each for each in kept.ranges if not _is_covered(each, kept, made, parse)), made]
    is_end = made.until is None
    return KeptCompare(
        begun_ms=kept.begun_ms,
        at=made.until,
        finished_ms=made.at_ms if is_end else kept.finished_ms,
        ranges=ranges,
    )


def _is_covered(each: ComparedRange, kept: KeptCompare, made: ComparedRange, parse: _Key) -> bool:
    """Return whether a range of an earlier pass was compared again by this one, as a whole."""
    if each.at_ms >= kept.begun_ms:
        return False
    if made.until is None:
        return True
    return each.until is not None and parse(each.until) <= parse(made.until)
