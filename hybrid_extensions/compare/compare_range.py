"""When a row that differs from the database counts: rechecks, waits, what the run has committed.

Rows differ while their changes are on their way to the target, so that one look proves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.cdc.compared.kept_compare import ComparedRange
from hybrid_extensions.cdc.compared.key_range import KEYS, KeyRange
from hybrid_extensions.compare.compared_sides import compared_sides
from hybrid_extensions.comparison.duckdb_database import as_json, count_rows
from orchestration.comparison.report import EXAMPLES
from sources.common.sql.sql_names import literal, quoted
from sources.common.times import now_ms

PAUSES_S = (3.0, 10.0, 30.0)
"""Seconds before each look at rows that differ: what is on its way has mostly arrived by then."""
MOST_LOOKS = 40
"""Number of looks after which rows that still wait for a commit are not judged."""


class LiveRun(NamedTuple):
    """State of the live run that writes the target, to judge whether differing rows count.

    Attributes:
        why_not: Why rows can't be judged now, as when it is behind; None if they can.
        batch_id: The last micro-batch that it has committed; None if unknown.
        has_all: Whether it has committed all that the topic has.
        waiting_s: How long the first change that is not committed has been waiting, in s.
        pace_s: Time between the starts of two micro-batches, in s.
    """

    why_not: str | None = None
    batch_id: int | None = None
    has_all: bool = True
    waiting_s: float = 0.0
    pace_s: float = 0.0


class RangeComparison(NamedTuple):
    """Result of comparing a range, after rechecks.

    Attributes:
        found: The result; None if rows differ that could not be judged.
        why_not: Why they could not be judged; None if they could.
        rows_read: Number of rows that all rechecks together have read from the database.
    """

    found: ComparedRange | None
    why_not: str | None
    rows_read: int


class _Look(NamedTuple):
    """What a look has found: rows of the database, keys that differ, and some of these."""

    rows: int
    differing: int
    examples: list[str]


def compare_range(
    asked: ComparedTable,
    key: Sequence[str],
    within: KeyRange,
    look_at_run: Callable[[], LiveRun],
    wait: Callable[[float], None] = time.sleep,
) -> RangeComparison:
    """Compare the rows of a range; recheck differing rows until the live run has caught up.

    A key counts as differing if the database has the same row at each look, and the target another
    one, also after the live run has committed all that the first look could see. Takes minutes if
    rows differ.

    Args:
        asked: Both tables.
        key: Columns of the key. If the table lacks one of them, rows are matched as a whole.
        within: The range.
        look_at_run: Returns the present state of the live run that writes the target.
        wait: Called with seconds to wait.

    Raises:
        InputError: One of the two tables can't be read.
        UnavailableError: The database does not answer.
    """
    with TemporaryDirectory(prefix="hybrid-compare-") as scratch:
        kept = Path(scratch) / "0.parquet"
        look = _look(asked, key, within, kept, None)
        looked_s, read = time.monotonic(), look.rows
        began: LiveRun | None = None
        is_last = not look.differing
        for number in range(1, MOST_LOOKS):
            if is_last or not look.differing:
                break
            pause_s = PAUSES_S[min(number, len(PAUSES_S)) - 1]
            if began is not None and number >= len(PAUSES_S):
                pause_s = max(pause_s, began.pace_s)
            if began is None:
                began = look_at_run()
            wait(pause_s)
            if number >= len(PAUSES_S):
                run = look_at_run()
                if run.why_not is not None:
                    return RangeComparison(None, run.why_not, read)
                is_last = _has_committed(began, run, time.monotonic() - looked_s)
            kept, before = Path(scratch) / f"{number}.parquet", kept
            look = _look(asked, key, within, kept, before)
            before.unlink()
            read += look.rows
    if look.differing and not is_last:
        why_not = "the live run has not committed what waited when rows that differ were first seen"
        return RangeComparison(None, why_not, read)
    found = ComparedRange(
        first=within.first,
        until=within.until,
        at_ms=now_ms(),
        rows=look.rows,
        differing=look.differing,
        examples=look.examples,
    )
    return RangeComparison(found, None, read)


def _has_committed(began: LiveRun, run: LiveRun, passed_s: float) -> bool:
    """Return whether a run has committed all that waited some time ago.

    Args:
        began: The run at that time, or later.
        run: The run now.
        passed_s: How long ago that was, in s.
    """
    if run.waiting_s > passed_s:
        return False
    if run.has_all or began.batch_id is None or run.batch_id is None:
        return run.has_all
    # The micro-batch that was under way may have begun before; the one after it has read all.
    return run.batch_id >= began.batch_id + 2


def _look(
    asked: ComparedTable, key: Sequence[str], within: KeyRange, kept: Path, before: Path | None
) -> _Look:
    """Compare a range once, and write the keys whose rows differ to a Parquet file.

    Args:
        asked: Both tables.
        key: Columns of the key.
        within: The range.
        kept: The file.
        before: The file of the look before; only keys that are in it with the same row of the
            database are kept. None at the first look.
    """
    where = within if within.kind in KEYS else None
    with compared_sides(asked, where) as (connection, columns):
        rows = count_rows(connection, "source")
        query = _differing(key, columns)
        if before is not None:
            query = (
                f"SELECT d.* FROM ({query}) d JOIN read_parquet({literal(str(before))}) b "
                "ON d._key = b._key AND d._row IS NOT DISTINCT FROM b._row"
            )
        connection.execute(f"CREATE TABLE audit.differing AS {query}")
        connection.execute(f"COPY audit.differing TO {literal(str(kept))} (FORMAT parquet)")
        shown = f"SELECT DISTINCT shown FROM audit.differing ORDER BY 1 LIMIT {EXAMPLES}"
        examples = [text for (text,) in connection.execute(shown).fetchall()]
        return _Look(rows, count_rows(connection, "audit.differing"), examples)


def _differing(key: Sequence[str], columns: Sequence[str]) -> str:
    """Return DuckDB's query of the keys that differ: key, digest of the database's row, and how.

    Of rows that the key does not name, the digest of the row is the key.
    """
    row = f"md5({as_json(columns)})"
    is_named = all(name in columns for name in key)
    name = as_json(key) if is_named else row
    others = [each for each in columns if each not in key] if is_named else []
    names = ", ".join(
        f"CASE WHEN s.{quoted(n)} IS DISTINCT FROM t.{quoted(n)} THEN {literal(n)} END"
        for n in others
    )
    listed = f"concat_ws(', ', {names})" if names else "''"
    shown = "coalesce(s._compared_key, t._compared_key)" if is_named else "'a row'"
    return (
        f"SELECT coalesce(s._compared_key, t._compared_key) AS _key, max(s._compared_row) AS _row, "
        f"min({shown} || CASE WHEN s._compared_key IS NULL THEN ' is only in the target' "
        "WHEN t._compared_key IS NULL THEN ' is only in the database' "
        f"ELSE ' differs in ' || {listed} END) AS shown FROM "
        f"(SELECT *, {name} AS _compared_key, {row} AS _compared_row FROM only_source) s "
        f"FULL JOIN (SELECT *, {name} AS _compared_key FROM only_target) t "
        "ON s._compared_key = t._compared_key GROUP BY 1"
    )
