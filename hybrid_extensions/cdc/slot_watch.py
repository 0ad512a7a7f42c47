"""State of a connector's slot from look to look: since when idle, unread, unknown; worst shard.

Each look records what it saw, the supervision's as well as that of `hybrid status`: so a slot that
no connector reads is detected without a daemon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hybrid_extensions.cdc.databases.connector_settings import settings_problem
from hybrid_extensions.cdc.databases.kafka_connect import restart_command
from hybrid_extensions.cdc.databases.replication_slot import (
    NEW_SNAPSHOT,
    SlotGone,
    WatchedSlot,
    ask_slot,
    keep_gone,
    name_of_shard,
    slot_gone,
    watched_slots,
)
from hybrid_extensions.cdc.databases.slot import Slot
from orchestration.capture.slot_state import SlotSeen
from sources.common.state_document import Record
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.errors import StateError, UnavailableError
from sources.planning.plan import log_server
from sources.state.generation import Generation

SLOT_WATCH = "run/slot-watch.json"
"""Name of the document where there are no shards."""


class SlotWatch(Record):
    """State document of a generation: last observation of the replication slot.

    Attributes:
        slot: Name of the slot; what was seen of another one does not count. Empty where neither
            slot nor connector is declared, and only whether the database answers is watched.
        idle_since_ms: Since when no connector was seen to read it, in ms since 1970; None if one
            did.
        unread_lsn: End of the database's log at a look that the connector has not read up to, or
            not confirmed; None if it had read all.
        unread_since_ms: When that look was, in ms since 1970.
        unknown_since_ms: Since when no look found out the slot's state, in ms since 1970; None if
            the last one did.
        misset: Why changes were lost or had other values, by a setting of the connector that a look
            found first; empty if none did. It stays, as the rows do.
    """

    slot: str
    idle_since_ms: int | None = None
    unread_lsn: int | None = None
    unread_since_ms: int | None = None
    unknown_since_ms: int | None = None
    misset: str = ""


class SlotLook(NamedTuple):
    """Result of one look at a replication slot.

    Attributes:
        seen: The part that the verdict needs.
        watch: The part that the next look needs; :func:`keep_slot` writes it.
        gone: When and how the slot was lost, so that changes are missing; None if it never was.
        others: Results for the slots of other shards, which are no worse.
    """

    seen: SlotSeen
    watch: SlotWatch
    gone: SlotGone | None
    others: Sequence[SlotLook] = ()


def observe_slot(loaded: LoadedPipeline, generation: Generation, looked_ms: int) -> SlotLook | None:
    """Ask the database for the state of the slot that a pipeline's changes come through.

    Of several shards, the result is that of the slot that is worst. Writes nothing. A database that
    does not answer is no error: the result says so.

    Args:
        loaded: The pipeline.
        generation: State of the generation, which has what earlier looks saw.
        looked_ms: The present, in ms since 1970.

    Returns:
        None if no slot is declared.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    looks = [_observe(each, generation, looked_ms) for each in watched_slots(loaded)]
    if not looks:
        return None
    worst, *others = sorted(looks, key=lambda look: _badness(look.seen), reverse=True)
    return worst._replace(others=others)


def _badness(seen: SlotSeen) -> tuple[object, ...]:
    """Return what sorts slots by how bad their state is."""
    return (
        seen.gone is not None,
        bool(seen.misset),
        bool(seen.failure),
        seen.idle_since_ms is not None,
        seen.unknown is not None,
        seen.unread_since_ms is not None,
        seen.unread_bytes or 0,
    )


def _observe(slot_of: WatchedSlot, generation: Generation, looked_ms: int) -> SlotLook:
    """Ask a database for the state of a slot."""
    options, topic, source = slot_of
    before = generation.read(name_of_shard(SLOT_WATCH, options.topic), SlotWatch)
    if before is None or before.slot != options.log_reader:
        before = SlotWatch(slot=options.log_reader)
    slot = ask_slot(options)
    is_known = isinstance(slot, Slot) and slot.server
    gone = slot_gone(
        generation, options, slot, log_server(generation, source or None) if is_known else ""
    )
    if not before.misset and (misset := settings_problem(options, topic)):
        before = before.model_copy(update={"misset": f"{misset} Found at {iso(looked_ms)}."})
    if isinstance(slot, str):
        since_ms = before.unknown_since_ms or looked_ms
        watch = before.model_copy(update={"unknown_since_ms": since_ms})
    else:
        watch = _after(before, slot, looked_ms)
    seen = SlotSeen(
        shard=options.topic or "",
        gone=None if gone is None else _gone_in_words(gone),
        idle_since_ms=watch.idle_since_ms,
        unread_since_ms=watch.unread_since_ms,
        unknown_since_ms=watch.unknown_since_ms,
        connector=options.connector or "",
        restart_command=restart_command(options.connector) if options.connector else "",
        is_restarted=options.restart_connector,
        misset=watch.misset,
    )
    if isinstance(slot, str):
        return SlotLook(replace(seen, unknown=slot), watch, gone)
    seen = replace(
        seen,
        retained_bytes=slot.retained_bytes,
        unread_bytes=slot.unread_bytes,
        is_confirmation=slot.received is None,
        failure=slot.failure,
        silent=slot.silent,
    )
    return SlotLook(seen, watch, gone)


def keep_slot(generation: Generation, look: SlotLook | None) -> None:
    """Keep the watch's observation of the slot in the state, and for good if the slot was gone.

    A state that can't be written, or whose store does not answer, is no error: then the next look
    starts without it.

    Args:
        generation: State of the generation.
        look: The look; None if no slot is declared, which writes nothing.
    """
    if look is None:
        return
    with contextlib.suppress(StateError, UnavailableError):
        for each in (look, *look.others):
            shard = each.seen.shard or None
            if each.gone is not None:
                keep_gone(generation, each.gone, shard)
            name = name_of_shard(SLOT_WATCH, shard)
            if generation.read(name, SlotWatch) != each.watch:
                generation.replace(name, each.watch)


def _gone_in_words(gone: SlotGone) -> str:
    text = str(gone)
    return f"{text[0].upper()}{text[1:]}. {NEW_SNAPSHOT}"


def _after(before: SlotWatch, slot: Slot, looked_ms: int) -> SlotWatch:
    """Return what is kept after a look at a slot whose state is known."""
    lsn, since_ms = before.unread_lsn, before.unread_since_ms
    is_told = slot.received is not None
    read = slot.log_end - (slot.unread_bytes or 0) if is_told else slot.confirmed
    if not slot.unread_bytes:
        lsn = since_ms = None
    elif lsn is None or read >= lsn:
        # It has read what the log held then, so what waits now came later.
        lsn, since_ms = slot.log_end, looked_ms
    idle_since_ms = (before.idle_since_ms or looked_ms) if slot.state == "idle" else None
    return before.model_copy(
        update={
            "idle_since_ms": idle_since_ms,
            "unread_lsn": lsn,
            "unread_since_ms": since_ms,
            "unknown_since_ms": None,
        }
    )
