"""Replication slot lost, missing or moved: recorded in the state, so that changes are missing.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
"""

from __future__ import annotations

from typing import NamedTuple

from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.cdc.databases.slot import Slot, State
from sources.common.state_document import Record
from sources.common.times import iso, now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.planning.plan import log_server
from sources.state.generation import Generation
from sources.storage.folder import Folder

_GONE = "run/slot.json"
NEW_SNAPSHOT = (
    "Create the connector again; then take a new snapshot, in a new folder, and begin a new "
    "generation: `hybrid generation new P`."
)
"""What to do, as a sentence, once a slot is missing or lost."""


class SlotGone(Record):
    """Record that a replication slot was missing or lost, so that changes are missing.

    Kept in the state of the generation that depends on the slot.

    Attributes:
        slot: Name of the slot.
        at_ms: When that was found, in Unix milliseconds.
        state: What was found: ``missing``, ``lost`` or ``moved``.
    """

    slot: str
    at_ms: int
    state: State

    def __str__(self) -> str:
        """Return the finding as text."""
        if self.state == "moved":
            return (
                f"connector {self.slot} was found at {iso(self.at_ms)} to read another server's "
                "log than that which the snapshot was taken in: positions of two servers can't be "
                "compared, so changes may have been taken for older ones"
            )
        what = "had lost its log" if self.state == "lost" else "did not exist"
        name = f"replication slot `{self.slot}`"
        if "://" in self.slot:
            what = (
                "had lost its place in the binary log" if self.state == "lost" else "had no place"
            )
            name = f"connector {self.slot}"
        return f"{name} {what} at {iso(self.at_ms)}: changes are missing"


class WatchedSlot(NamedTuple):
    """A replication slot, or a connector, that has to be watched.

    Attributes:
        options: The declared snapshot that names it.
        topic: The topic of the changes that come through it; None if none follows.
        source: Name of the source with the snapshot.
    """

    options: SnapshotOptions
    topic: KafkaSource | None
    source: str = ""


def watched_slots(loaded: LoadedPipeline) -> list[WatchedSlot]:
    """Return the slots, or connectors, that the declared snapshots name: one for each shard.

    Empty if none does.

    Args:
        loaded: The pipeline.
    """
    pipeline = loaded.pipeline
    return [
        WatchedSlot(source.snapshot, pipeline.changes_after(source.name), source.name)
        for source in pipeline.sources
        if source.snapshot is not None and source.snapshot.log_reader
    ]


def watched_slot(loaded: LoadedPipeline) -> SnapshotOptions | None:
    """Return the declared snapshot whose slot or connector has to be watched; None if none has.

    Of several shards that of the first one.

    Args:
        loaded: The pipeline.
    """
    return next((each.options for each in watched_slots(loaded)), None)


def name_of_shard(name: str, topic: str | None) -> str:
    """Return the name of a state document about a slot, which each shard has for itself.

    Args:
        name: Name of the document where there are no shards, such as ``run/slot-watch.json``.
        topic: Topic of the shard's changes; None where there are no shards.
    """
    stem, ending = name.rsplit(".", 1)
    return name if topic is None else f"{stem}-{topic}.{ending}"


def ask_slot(options: SnapshotOptions) -> Slot | str:
    """Ask the database server for the state of a declared slot; raises nothing.

    For MariaDB and MySQL it is the connector's place in the binary log.

    Args:
        options: Declared snapshot with connection string and slot name.

    Returns:
        The slot's state; or in words why it is not known: the server does not answer within 5 s or
        refuses, is a standby server, or the extra that reads it is not installed.
    """
    try:
        access = access_to(options.dsn)
    except InputError as error:
        return str(error)
    return access.ask_slot(options)


def gone_state(slot: Slot, server: str) -> State | None:
    """Return how a slot was lost (``lost``, ``missing``, ``moved``); None if it still works.

    Args:
        slot: The slot.
        server: Id of the MySQL server that the snapshot was taken in; empty if it is not known.
    """
    if slot.state in ("lost", "missing"):
        return slot.state
    return "moved" if server and slot.server and slot.server != server else None


def slot_gone(
    generation: Folder, options: SnapshotOptions, slot: Slot | str, server: str = ""
) -> SlotGone | None:
    """Return the record that a slot is missing or lost now, or was so earlier in this generation.

    None if it never was. A kept record stays, as a slot that is created again lacks the changes in
    between. Nothing is written (:func:`keep_gone` does that).

    Args:
        generation: State folder of the generation, which keeps the record.
        options: Declared snapshot with the slot's name.
        slot: State of the slot, or why it is not known, as :func:`ask_slot` returns it.
        server: Id of the MySQL server that the snapshot was taken in; empty if it is not known.

    Raises:
        StateError: The kept record is damaged.
        UnavailableError: The state's store does not answer.
    """
    known = generation.read(name_of_shard(_GONE, options.topic), SlotGone)
    if known is not None and known.slot == options.log_reader:
        return known
    if isinstance(slot, str) or (state := gone_state(slot, server)) is None:
        return None
    return SlotGone(slot=options.log_reader, at_ms=now_ms(), state=state)


def keep_gone(generation: Folder, gone: SlotGone, topic: str | None = None) -> None:
    """Write the record that a slot was missing or lost to the state, if it is not there yet.

    Another record that is there, as of a slot with another name, is replaced.

    Args:
        generation: State folder of the generation.
        gone: The record.
        topic: Topic of the shard's changes; None where there are no shards.

    Raises:
        StateError: The state folder can't be written, or the record in it is damaged.
        UnavailableError: The state's store does not answer.
    """
    name = name_of_shard(_GONE, topic)
    if generation.read(name, SlotGone) != gone:
        generation.replace(name, gone)


def look_at_slots(loaded: LoadedPipeline, generation: Generation) -> None:
    """Ask databases for a pipeline's slots, and record in the state which are missing or lost.

    Raises nothing about the slots themselves; does nothing without a slot or connector.

    Args:
        loaded: The pipeline.
        generation: State of the generation, whose plan knows the snapshots' servers.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    for options, _, source in watched_slots(loaded):
        gone = slot_gone(
            generation, options, ask_slot(options), log_server(generation, source or None)
        )
        if gone is not None:
            keep_gone(generation, gone, options.topic)
