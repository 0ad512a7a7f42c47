"""State of the replication slot (or connector) that reads a database's log, as one look saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestration.capture.snapshots import snapshot_sources
from orchestration.display import size
from sources.config.loader import LoadedPipeline


@dataclass(frozen=True)
class SlotSeen:
    """Observed state of the replication slot (for MariaDB and MySQL: the connector) of a topic.

    Attributes:
        gone: Why changes are missing for good, and what to do, as sentences: the slot is or was
            dropped, or has or had lost its log; None if it never was.
        idle_since_ms: Since when no connector reads the slot, in ms since 1970; None if one does.
        unknown: Why the state of the slot is unknown; None if it is known.
        unknown_since_ms: Since when it has been unknown at each look, in ms since 1970; None if it
            is known.
        retained_bytes: Bytes of write-ahead log that the database keeps for the slot; None if
            unknown.
        unread_bytes: Bytes of the log that the connector has not read; None if unknown.
        is_confirmation: Whether ``unread_bytes`` counts what the connector has not confirmed, as
            what it has read is unknown.
        unread_since_ms: Since when the connector has not read on, in ms since 1970; None if it has
            read all, or that is unknown.
        connector: URL of the connector that writes the topic; empty if none is declared.
        failure: Why that connector failed, so that somebody has to start it again; empty if it did
            not.
        silent: Why Kafka Connect does not say how that connector is, such as that its process is
            gone; empty if it does.
        restart_command: Shell command that starts it again; empty if no connector is declared.
        is_restarted: Whether the supervision starts it again.
        misset: Why changes are lost or have other values, by a setting of the connector; empty if
            none is known to do that.
        shard: Topic of the shard whose changes come through it; empty without shards.
    """

    gone: str | None = None
    idle_since_ms: int | None = None
    unknown: str | None = None
    unknown_since_ms: int | None = None
    retained_bytes: int | None = None
    unread_bytes: int | None = None
    is_confirmation: bool = False
    unread_since_ms: int | None = None
    connector: str = ""
    failure: str = ""
    silent: str = ""
    restart_command: str = ""
    is_restarted: bool = False
    misset: str = ""
    shard: str = ""

    @property
    def is_read(self) -> bool:
        """Whether a connector is known to be reading the slot.

        False while its state is unknown.
        """
        return self.gone is None and self.idle_since_ms is None and self.unknown is None


def has_slot(loaded: LoadedPipeline) -> bool:
    """Return whether a declared snapshot names a slot, or a connector, that has to be watched."""
    return any(
        source.snapshot is not None and bool(source.snapshot.log_reader)
        for source in snapshot_sources(loaded)
    )


def describe_unread(unread: float, *, is_confirmation: bool = False) -> str:
    """Return the connector's lag in words: ``58 MB in the database, not read by the connector``.

    Args:
        unread: Bytes of the database's log.
        is_confirmation: Whether the connector may have read some of it, and not confirmed it yet.
    """
    done = "confirmed" if is_confirmation else "read"
    return f"{size(unread)} in the database, not {done} by the connector"


def unread_of(numbers: Mapping[str, float]) -> str | None:
    """Return the connector's lag in words, from a verdict's numbers.

    Returns:
        None if the connector has read all, or the pipeline captures no table.
    """
    if unread := numbers.get("slot_unread_bytes"):
        return describe_unread(unread)
    if unread := numbers.get("slot_unconfirmed_bytes"):
        return describe_unread(unread, is_confirmation=True)
    return None
