"""When a sink needs a load of the whole table: changes since its version can't be computed."""

from __future__ import annotations

from hybrid_extensions.feeds.position import Position


def why_not_from(before: Position, now: Position, commit_now: str) -> str | None:
    """Return why the changes since a position can't be computed, as a clause; None if they can.

    Args:
        before: The position that a sink has.
        now: The newest position of the table.
        commit_now: SHA-256 of the commit of the sink's version, as the log has it now; empty if the
            log has none.
    """
    if before.table != now.table:
        return "the table was created again"
    if before.owner != now.owner:
        return "another generation serves"
    if before.form != now.form:
        return "other columns, or another key, are delivered"
    if before.number > now.number:
        return f"the table was set back from version {before.number} to {now.number}"
    if not commit_now:
        return f"the log of the table no longer has version {before.number}"
    if before.commit != commit_now:
        return f"version {before.number} of the table has another commit than it had"
    return None
