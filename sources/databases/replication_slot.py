"""Replication slot: PostgreSQL keeps its log for a connector until the connector has read it.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sources.common.optional import needs_extra
from sources.common.positions import Record, iso, now_ms
from sources.common.state import Folder
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import SnapshotOptions
from sources.errors import InputError

if TYPE_CHECKING:
    import psycopg

_TIMEOUT_S = 5
_GONE = "run/slot.json"
NEW_SNAPSHOT = (
    "Create the connector again; then take a new snapshot, in a new folder, and begin a new "
    "generation: `hybrid generation new`."
)


State = Literal["active", "idle", "lost", "missing"]


class Slot(NamedTuple):
    """State of a slot.

    Attributes:
        state: ``active``: a connector reads it; ``idle``: none does; ``lost``: the server removed
            its log; ``missing``: it does not exist, or was never read.
        retained_bytes: Size of the log that the server keeps for it.
    """

    state: State
    retained_bytes: int = 0


class SlotGone(Record):
    """A slot that a generation depends on was missing or lost: changes are missing.

    Attributes:
        slot: Name of the slot.
        at_ms: When that was found, in milliseconds.
        state: State that was found.
    """

    slot: str
    at_ms: int
    state: State

    def __str__(self) -> str:
        """Return the finding as text."""
        what = "had lost its log" if self.state == "lost" else "did not exist"
        return f"replication slot `{self.slot}` {what} at {iso(self.at_ms)}: changes are missing"


def watched_slot(loaded: LoadedPipeline) -> SnapshotOptions | None:
    """Return the declaration of the slot that a pipeline's changes come through, or None."""
    snapshots = [source.snapshot for source in loaded.pipeline.sources]
    return next((each for each in snapshots if each is not None), None)


def ask_slot(options: SnapshotOptions) -> Slot | str:
    """Ask the server for a declared slot.

    Returns:
        The slot; or the reason why its state is not known, as text.
    """
    try:
        with needs_extra("postgres", "A replication slot of PostgreSQL"):
            import psycopg  # noqa: PLC0415 - few need it
    except InputError as error:
        return str(error)

    try:
        with psycopg.connect(
            options.dsn,
            autocommit=True,
            connect_timeout=_TIMEOUT_S,
            application_name="hybrid slot",
            options=f"-c statement_timeout={_TIMEOUT_S * 1000}",
        ) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            if row is not None and row[0]:
                return f"{connection.info.host} is a standby server, which does not report slots"
            return find_slot(connection, options.slot)
    except psycopg.Error as error:
        return " ".join(str(error).split())


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot:
    """Return the state of a slot.

    Args:
        connection: Open connection to the server.
        name: Name of the slot.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    row = connection.execute(
        "SELECT active, confirmed_flush_lsn IS NOT NULL, coalesce(wal_status, ''), "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint "
        "FROM pg_replication_slots WHERE slot_name = %s",
        [name],
    ).fetchone()
    if row is None or not row[1]:
        return Slot("missing")
    if row[2] == "lost":
        return Slot("lost")
    return Slot("active" if row[0] else "idle", row[3])


def slot_gone(generation: Folder, options: SnapshotOptions, slot: Slot | str) -> SlotGone | None:
    """Return that a slot is missing or lost now, or was once before; None if never.

    A slot of the same name that is created later lacks the changes in between.

    Args:
        generation: Folder of the generation, which keeps the finding.
        options: Declared snapshot with the slot's name.
        slot: State of the slot, or why it is not known.
    """
    known = generation.read(_GONE, SlotGone)
    if known is not None and known.slot == options.slot:
        return known
    if isinstance(slot, str):
        return None
    if slot.state in ("lost", "missing"):
        return SlotGone(slot=options.slot, at_ms=now_ms(), state=slot.state)
    return None


def keep_gone(generation: Folder, gone: SlotGone) -> None:
    """Write to the state that a slot was missing or lost."""
    if generation.read(_GONE, SlotGone) != gone:
        generation.replace(_GONE, gone)


def look_at_slot(loaded: LoadedPipeline, generation: Folder) -> None:
    """Check the slot of a pipeline, if it has one, and write down if it is missing or lost."""
    if (options := watched_slot(loaded)) is not None:
        gone = slot_gone(generation, options, ask_slot(options))
        if gone is not None:
            keep_gone(generation, gone)
