"""Since when a captured database is silent, where neither slot nor connector is declared.

MariaDB and MySQL can be captured without either. With one, :mod:`.slot_watch` finds it out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.cdc.databases.replication_slot import name_of_shard
from hybrid_extensions.cdc.slot_watch import SLOT_WATCH, SlotWatch
from orchestration.capture.silent_database import SilentDatabase
from orchestration.capture.snapshots import snapshot_sources
from sources.config.loader import LoadedPipeline
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, StateError, UnavailableError
from sources.state.generation import Generation


class SilenceLook(NamedTuple):
    """Result of one look at these databases.

    Attributes:
        seen: The one that has not answered for longest; None if all answer.
        watches: The part that the next look needs, by name of the document; :func:`keep_silence`
            writes it.
    """

    seen: SilentDatabase | None
    watches: Mapping[str, SlotWatch]


def observe_silence(loaded: LoadedPipeline, generation: Generation, looked_ms: int) -> SilenceLook:
    """Ask each of these databases whether it answers. Writes nothing.

    Without such a database nothing is asked. One whose extension is missing counts as silent.

    Args:
        loaded: The pipeline.
        generation: State of the generation, which has what earlier looks saw.
        looked_ms: The present, in ms since 1970.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    silent, watches = [], {}
    for source in snapshot_sources(loaded):
        options = source.snapshot
        if options is None or options.log_reader:
            continue
        name = name_of_shard(SLOT_WATCH, options.topic)
        before = generation.read(name, SlotWatch)
        if before is None or before.slot:
            before = SlotWatch(slot="")
        since_ms = None
        if (why := _ask(options)) is not None:
            since_ms = before.unknown_since_ms or looked_ms
            silent.append(SilentDatabase(why, since_ms, options.topic or ""))
        watches[name] = before.model_copy(update={"unknown_since_ms": since_ms})
    longest = min(silent, key=lambda each: each.since_ms, default=None)
    return SilenceLook(longest, watches)


def _ask(options: SnapshotOptions) -> str | None:
    try:
        return access_to(options.dsn).ask_silence(options)
    except InputError as error:
        return str(error)


def keep_silence(generation: Generation, look: SilenceLook) -> None:
    """Write what a look saw to the state.

    A state that can't be written, or whose store does not answer, is no error: then the next look
    starts without it.

    Args:
        generation: State of the generation.
        look: The look.
    """
    with contextlib.suppress(StateError, UnavailableError):
        for name, watch in look.watches.items():
            if (generation.read(name, SlotWatch) or SlotWatch(slot="")) != watch:
                generation.replace(name, watch)
