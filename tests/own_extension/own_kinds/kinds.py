from __future__ import annotations

from sources.config.database_kind import DatabaseKind

SLOTTED = DatabaseKind(
    name="slotted",
    title="Slotted",
    addresses=r"slotted://",
    parts=("position", "lsn", "transaction", "committed_at"),
    has_slots=True,
    leaves_out=True,
    schema="schema",
    password="SLOTTED_PASSWORD",
    access="own_kinds.access:ACCESS",
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
    access="own_kinds.access:ACCESS",
    starter="own_kinds.kinds:STARTER",
    compared_rows="own_kinds.kinds",
)
"""Kafka Connect keeps the place of a connector."""
KINDS = [SLOTTED, LOGGED]
