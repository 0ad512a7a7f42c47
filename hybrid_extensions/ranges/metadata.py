"""Metadata of recomputed ranges in Dagster's UI, and the check that warns of empty ones."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from hybrid_extensions.ranges.backfill import RangeLook, RangeResult
from orchestration.defs.show.metadata import Metadata
from orchestration.display import second, size
from sources.common.counting import counted
from sources.common.times import to_ms

_SHOWN = 10
"""Most ranges that a sentence names."""


def looked(found: RangeLook, rows: int | None) -> Metadata:
    """Return the metadata of a dry run: what recomputing a range would read and replace.

    Args:
        found: The dry run.
        rows: Rows that the table has in the range; None if they can't be counted.
    """
    known = {} if rows is None else {"rows in the range now": rows}
    why = {} if found.scope.why is None else {"reads": found.scope.why}
    return {**_range(found), "splits": found.splits, "size": size(found.bytes), **known, **why}


def replaced(found: RangeResult, ranges: int = 1) -> Metadata:
    """Return the metadata of a range that was recomputed: rows written, replaced and kept.

    Args:
        found: What was done.
        ranges: Number of the partitions that it covers, each of which shows all of it.
    """
    of_all = f"with others: since, until and the rows below are of all {ranges:,} ranges of the run"
    return {
        **_range(found),
        **({"recomputed": of_all} if ranges > 1 else {}),
        "rows written": found.replaced.written,
        "rows replaced": found.replaced.removed,
        "live rows kept": found.replaced.kept_live,
    }


def _range(found: RangeLook | RangeResult) -> Metadata:
    return {
        "generation": found.generation,
        "since": second(to_ms(found.scope.since)),
        "until": second(to_ms(found.scope.until)),
    }


def rows_in_ranges(name: str, rows: Mapping[str, int | None]) -> dg.AssetCheckResult:
    """Return the result of the check that ranges of the table have rows; it only warns.

    Args:
        name: Name of the check.
        rows: By partition key of each recomputed range, its number of rows; None where they can't
            be counted.
    """
    empty = [each for each, number in rows.items() if number == 0]
    is_known = None not in rows.values()
    told = f"{counted(len(rows), 'range has', 'ranges have')} rows."
    if not is_known:
        told = "Rows of ranges can't be counted: there is no table, or it lacks the event time."
    if empty:
        shown = ", ".join(empty[:_SHOWN]) + (", …" if empty[_SHOWN:] else "")
        told = (
            f"The table has no rows in {counted(len(empty), 'range')} of {len(rows):,}: {shown}. "
            "If there should be some, look whether their files are there, and materialize them "
            "again."
        )
    return dg.AssetCheckResult(
        check_name=name,
        passed=is_known and not empty,
        severity=dg.AssetCheckSeverity.WARN,
        description=told,
        metadata={"ranges": len(rows), "ranges without rows": len(empty)},
    )


def filled(generation: str, by: str, rows: int | None) -> Metadata:
    """Return the metadata of a range of the table that needs no recomputation.

    Args:
        generation: Generation that readers see.
        by: What delivered its rows, such as ``history``.
        rows: Number of its rows; None if they are not counted.
    """
    counted = {} if rows is None else {"dagster/row_count": rows}
    return {"generation": generation, "delivered by": by, **counted}
