"""Kinds of databases whose tables can be captured, found by how a connection string begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sources.decoding.record_columns import EnvelopePart
from sources.extensions import items_added, none_adds


@dataclass(frozen=True)
class DatabaseKind:
    """Kind of database that an extension adds: its facts, and its implementations by part.

    An implementation is given as ``module:object``, or as a module, and imported at its first use,
    as each kind needs an extra of its own.

    Attributes:
        name: Its name, which is also that of the extra that reads it.
        title: Its name in messages.
        addresses: Regular expression of how its connection strings begin.
        parts: Parts of the change envelope (position, transaction) that the hand-over needs.
        has_slots: Whether a connector keeps its place in a replication slot; else Kafka Connect
            keeps it, as a position of the binary log.
        leaves_out: Whether its log leaves out long values that a change does not touch, and has
            each TRUNCATE.
        schema: What the first part of a table's name is called, also in a connector's settings.
        password: Environment variable with the password.
        access: What asks it, a :class:`~hybrid_extensions.cdc.databases.access.Access`.
        starter: What ``hybrid init`` has to know of it, a
            :class:`hybrid_extensions.cdc.capture_starter.CapturedKind`.
        compared_rows: What reads its rows for ``hybrid compare``, a
            :class:`hybrid_extensions.cdc.compared.database_rows.DatabaseRows`.
    """

    name: str
    title: str
    addresses: str
    parts: tuple[EnvelopePart, ...]
    has_slots: bool
    leaves_out: bool
    schema: str
    password: str
    access: str
    starter: str
    compared_rows: str


def kind_of(dsn: str) -> DatabaseKind:
    """Return the kind of database that a connection string is for, by how it begins.

    Raises:
        InputError: No installed extension captures tables of such databases.
    """
    kinds: list[DatabaseKind] = [*items_added("databases")]
    for kind in kinds:
        if re.match(kind.addresses, dsn):
            return kind
    # Only the beginning is shown, as a password may follow.
    scheme, url, _ = dsn.partition("://")
    address = f"{scheme}://…" if url else "host=…"
    known = ", ".join(kind.title for kind in kinds) or "none"
    does = f"captures the database of `dsn: {address}`; known are: {known}"
    raise none_adds(does, "correct the address", field="dsn", value=address)
