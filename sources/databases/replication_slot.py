"""A replication slot: where PostgreSQL keeps its log for a connector until that has read it.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sources.common.positions import Record, iso, now_ms
from sources.common.state import Folder
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import SnapshotOptions

if TYPE_CHECKING:
    import psycopg

_TIMEOUT_S = 5
_GONE = "run/slot.json"
NEW_SNAPSHOT = (
    "Make the connector anew; then take a new snapshot, in a new folder, and begin a new "
    "generation: `hybrid generation new`."
)


State = Literal["active", "idle", "lost", "missing"]


class Slot(NamedTuple):
    """A slot, as it stands.

    Attributes:
        state: ``active``: a connector reads it; ``idle``: none does; ``lost``: its log was
            removed; ``missing``: it is not there, or was never read.
        retained_bytes: Log that the server keeps for it.
    """

    state: State
    retained_bytes: int = 0


class SlotGone(Record):
    """A slot that a generation depends on was not there, or its log was not: changes are missing.

    Attributes:
        slot: Its name.
        at_ms: When that was seen.
        state: What was seen.
    """

    slot: str
    at_ms: int
    state: State

    def __str__(self) -> str:
        """In words."""
        what = "had lost its log" if self.state == "lost" else "was not there"
        return f"replication slot `{self.slot}` {what} at {iso(self.at_ms)}: changes are missing"


def watched_slot(loaded: LoadedPipeline) -> SnapshotOptions | None:
    """The slot that the changes of a pipeline come through, where that is declared."""
    snapshots = [source.snapshot for source in loaded.pipeline.sources]
    return next((each for each in snapshots if each is not None), None)


def ask_slot(options: SnapshotOptions) -> Slot | str:
    """A slot as its server tells it; or why it does not, in words."""
    import psycopg  # noqa: PLC0415 - few need it

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
                return f"{connection.info.host} is a standby, which does not tell of its slots"
            return find_slot(connection, options.slot)
    except psycopg.Error as error:
        return " ".join(str(error).split())


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot:
    """A slot, over a connection that is there.

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
    """That a slot is gone, or was once: one of the same name that comes later lacks changes.

    Args:
        generation: Remembers it.
        options: Name the slot.
        slot: As it stands, or why that is not known.
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
    """Remember that a slot was gone."""
    if generation.read(_GONE, SlotGone) != gone:
        generation.replace(_GONE, gone)


def look_at_slot(loaded: LoadedPipeline, generation: Folder) -> None:
    """Look whether the slot of a pipeline is there, if it has one, and remember if it is not."""
    if (options := watched_slot(loaded)) is not None:
        gone = slot_gone(generation, options, ask_slot(options))
        if gone is not None:
            keep_gone(generation, gone)
