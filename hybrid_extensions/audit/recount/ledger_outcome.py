"""Verdict on a recounted hand-over, by partition: agrees, differs, unknown (Kafka deleted rows)."""

from __future__ import annotations

from typing import NamedTuple

from orchestration.comparison.report import LedgerLine, Outcome
from sources.common.counting import counted, counted_as
from sources.common.times import iso
from sources.ledger import LedgerEntry


class PartitionCounts(NamedTuple):
    """Row counts of one topic partition of a hand-over, by the audit.

    Attributes:
        lowest_offset: Lowest offset of a row that the topic holds; None without rows.
        first_offset: Lowest such offset from the start offset on; None without such rows.
        seam_rows: Rows that the topic holds in the seam.
        delivered: How many of the rows in the seam history holds.
        before_start: Rows before the start offset that are not in history, so that no source
            delivers them.
        undecided: Rows before the start offset of which neither the key nor a rule tells whether
            history holds them.
        first_ms: Record timestamp of the row at ``first_offset``, in ms since 1970; None without
            it.
    """

    lowest_offset: int | None
    first_offset: int | None
    seam_rows: int
    delivered: int
    before_start: int
    undecided: int
    first_ms: int | None


NO_ROWS = PartitionCounts(None, None, 0, 0, 0, 0, None)


def line_of(
    source: str,
    entry: LedgerEntry,
    recounted: PartitionCounts,
    removed: int | None,
    *,
    is_filtered: bool,
    history_ms: int | None,
) -> LedgerLine:
    """Return the report's line on a partition: its recount compared with ledger and run's count.

    Its outcome is ``unknown`` where Kafka has deleted rows of the seam, or may have deleted some
    between the end of history and the start; where no key decides about a row; or where the run has
    not counted its rows yet.

    Args:
        source: Name of the topic's source.
        entry: The partition in the ledger.
        recounted: Its rows now.
        removed: How many rows of the seam the run removed; None if it has not counted them.
        is_filtered: Whether the run removes rows of the seam by a rule, and counts them.
        history_ms: Highest event time in the sources before, in ms since 1970; None if the start
            does not depend on times.
    """
    outcome, reason = _judge(entry, recounted, removed, is_filtered=is_filtered)
    if outcome == "agrees" and _may_have_hole(entry, recounted, history_ms):
        outcome = "unknown"
        reason = (
            f"Kafka has deleted the records before the start offset, history ends at "
            f"{iso(history_ms or 0)}, and the first record is of {iso(recounted.first_ms or 0)}: "
            "rows in between may be in no source's input"
        )
    return LedgerLine(
        source=source,
        topic=entry.topic,
        partition=entry.partition,
        start=entry.start,
        first_offset=recounted.first_offset,
        seam_rows=recounted.seam_rows,
        delivered=recounted.delivered,
        removed=removed if is_filtered else None,
        before_start=None if recounted.undecided else recounted.before_start,
        outcome=outcome,
        reason=reason,
    )


def _may_have_hole(entry: LedgerEntry, recounted: PartitionCounts, history_ms: int | None) -> bool:
    """Return whether rows between history and the start may be gone; arguments as above."""
    if entry.start == 0 or history_ms is None or recounted.first_ms is None:
        return False
    lowest = recounted.lowest_offset
    is_deleted = lowest is not None and lowest >= entry.start
    return is_deleted and recounted.first_ms > history_ms


def _judge(
    entry: LedgerEntry, recounted: PartitionCounts, removed: int | None, *, is_filtered: bool
) -> tuple[Outcome, str | None]:
    """Return the outcome of a partition's recount, and its reason; arguments as above."""
    if recounted.before_start:
        return "differs", (
            f"{counted(recounted.before_start, 'row')} before the start offset "
            f"{counted_as(recounted.before_start, 'is', 'are')} in no source's input"
        )
    if recounted.undecided:
        return "unknown", (
            f"no `key` decides whether history holds the "
            f"{counted(recounted.undecided, 'row')} before the "
            "start offset"
        )
    lowest = recounted.lowest_offset
    if entry.overlap == 0 or entry.first_offset is None:
        is_whole = True
    else:
        is_whole = lowest is not None and lowest <= entry.first_offset
    if not is_whole:
        return "unknown", "Kafka has deleted records in the seam, so it can't be recounted"
    if not is_filtered or (removed is None and entry.overlap == 0):
        return "agrees", None
    if removed is None:
        return "unknown", (
            "the run has not passed the seam, or has not counted its rows yet; while it runs, it "
            "does: `hybrid resume P`"
        )
    if removed != recounted.delivered:
        return "differs", (
            f"the run removed {counted(removed, 'row')} of the seam, and history holds "
            f"{recounted.delivered:,}"
        )
    return "agrees", None
