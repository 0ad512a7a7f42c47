"""When a recount of bad records agrees, differs or is unknown: runs' count, quarantine, Kafka."""

from __future__ import annotations

from orchestration.comparison.report import Outcome


def recount_outcome(
    found: int, counted: int | None, lacking: int | None, *, is_whole: bool
) -> tuple[Outcome, str | None]:
    """Return the outcome of a recount, and the reason for it, a clause. A pure function.

    The reason is None if all agrees.

    Args:
        found: Records that the audit found.
        counted: Records that the runs counted; None if no run has counted.
        lacking: How many of those found are missing from the quarantine; None if there is none.
        is_whole: Whether the input still has every record that the runs may have read.
    """
    if lacking:
        return "differs", f"{lacking:,} are missing from the quarantine table"
    if counted is None:
        return "unknown", "no run has counted"
    if counted < found or (is_whole and counted > found):
        return "differs", f"the runs counted {counted:,}"
    if counted > found:
        return "unknown", (f"the runs counted {counted:,}, and Kafka has deleted records since")
    return "agrees", None
