"""A kind with slots, and one without. Nothing answers at their addresses."""

from __future__ import annotations

from typing import Any

from sources.config.database_kind import DatabaseKind
from sources.databases.access import Access
from sources.errors import UnavailableError


def _unavailable(*_: Any) -> Any:
    message = "The database does not answer."
    raise UnavailableError(message, "Start it, then repeat what you did.")


ACCESS = Access(
    open_table=_unavailable,
    export=_unavailable,
    find_tables=_unavailable,
    mark_log=_unavailable,
    settle_log=_unavailable,
    ask_slot=lambda _: "The database does not answer.",
    find_added_columns=_unavailable,
    find_gone_columns=_unavailable,
    find_types=_unavailable,
    look_at_table=_unavailable,
    server_of=lambda dsn: dsn.partition("@")[2].partition("/")[0],
)
SLOTTED = DatabaseKind(
    name="slotted",
    title="Slotted",
    addresses=r"slotted://",
    parts=("position", "lsn", "transaction", "committed_at"),
    has_slots=True,
    leaves_out=True,
    schema="schema",
    password="SLOTTED_PASSWORD",
    access="own_kinds.kinds:ACCESS",
    starter="own_kinds.kinds:STARTER",
    compared_rows="own_kinds.kinds",
)
"""A connector keeps its place in a slot, and the log leaves out long values."""
LOGGED = DatabaseKind(
    name="logged",
    title="Logged",
    addresses=r"logged://",
    parts=("position", "committed_at"),
    has_slots=False,
    leaves_out=False,
    schema="database",
    password="LOGGED_PASSWORD",
    access="own_kinds.kinds:ACCESS",
    starter="own_kinds.kinds:STARTER",
    compared_rows="own_kinds.kinds",
)
"""Kafka Connect keeps the place of a connector."""
KINDS = [SLOTTED, LOGGED]
