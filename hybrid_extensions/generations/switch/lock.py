"""Lock for changes to a pipeline's table; the refusal of a second change names the holder.

Such a change is a promotion, a rollback, a discard, the backfill of a range, or upkeep: one that
replaces rows while another one does would work on files that are no longer there.

The lock itself names nobody, so its holder writes a document next to it. That one is for people
alone: it is replaced with each step, and nothing is decided by it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from orchestration.display import ago, moment
from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.storage.folder import Folder
from spark_jobs.run_state.lease import LAUNCH_TTL_S
from spark_jobs.run_state.table_locks import take_range_lock, take_switch_lock

_SWITCH_WAY_OUT = (
    "`hybrid generation finish P` completes what it began, and `hybrid generation abort P` gives "
    "it up"
)
_BACKFILL_WAY_OUT = (
    "no row of its range is replaced before its one commit, and the backfill can be repeated"
)
POLL_S = 2.0
"""Seconds between two looks whether the change of another process has ended."""


class SwitchHolder(Record):
    """Holder of the lock for changes to a pipeline's table, in a document for people alone.

    Attributes:
        host: Name of the holder's machine.
        pid: Process id of the holder on it.
        since_ms: When it took the lock, in ms since 1970.
        doing: What it does, such as ``promotion of g2``.
        by: Who requested that, as given; None if no name was given.
        step: The step that it has come to; None before the first one.
        way_out: What holds after its process was ended, as a clause; empty if unknown.
    """

    NAME: ClassVar = "switch-holder.json"

    host: str
    pid: int
    since_ms: int
    doing: str
    by: str | None = None
    step: str | None = None
    way_out: str = ""

    def in_words(self) -> str:
        """Return a sentence with the holder, since when, and the change in progress."""
        person = "" if self.by is None else f", requested by {self.by}"
        step = "" if self.step is None else f", step {self.step}"
        return (
            f"It is process {self.pid} on {self.host}, since {moment(self.since_ms)} UTC "
            f"({ago(self.since_ms, now_ms())}): {self.doing}{person}{step}."
        )


class HeldSwitch:
    """Lock for changes to a pipeline's table, held by this process, and published for people.

    Errors of the publication are ignored.

    Args:
        home: The pipeline's folder in the state folder.
        holder: Description of the holder, which others show.
    """

    def __init__(self, home: Folder, holder: SwitchHolder) -> None:
        self._home = home
        self._holder: SwitchHolder | None = holder
        self._write()

    def note(self, step: str) -> None:
        """Publish the step that has begun; does nothing once the lock is free. Raises nothing.

        Args:
            step: Such as ``2 of 5: listing the files of g2``.
        """
        if self._holder is not None:
            self._holder = self._holder.model_copy(update={"step": step})
            self._write()

    def close(self) -> None:
        """Remove the published document, before the lock is freed. Raises nothing."""
        self._holder = None
        with suppress(HybridError):
            self._home.delete(SwitchHolder.NAME)

    def _write(self) -> None:
        # The note only informs people: the change continues without it.
        with suppress(HybridError):
            if self._holder is not None:
                self._home.replace(SwitchHolder.NAME, self._holder)


@contextmanager
def hold_switch_lock(
    loaded: LoadedPipeline, doing: str, by: str | None = None, way_out: str = _SWITCH_WAY_OUT
) -> Iterator[HeldSwitch]:
    """Hold the lock for changes to a pipeline's table in ``with``; refuse if it is taken.

    It is not waited for. A process that ends frees it.

    Args:
        loaded: The pipeline.
        doing: What the body does, such as ``promotion of g2``; others are told.
        by: Who requested it; None if unknown.
        way_out: What holds if the process is ended meanwhile, as a clause; others are told.

    Raises:
        StateError: Another process changes the table; names it (transient). Or the state can't be
            written.
        UnavailableError: The state's store does not answer.
    """
    if (lock := take_switch_lock(loaded.state)) is None:
        raise _held_by_another(loaded, doing)
    try:
        holder = SwitchHolder(
            host=socket.gethostname(),
            pid=os.getpid(),
            since_ms=now_ms(),
            doing=doing,
            by=by,
            way_out=way_out,
        )
        held = HeldSwitch(loaded.state, holder)
        try:
            yield held
        finally:
            held.close()
    finally:
        lock.release()


@contextmanager
def hold_switch_lock_in_turn(
    loaded: LoadedPipeline,
    doing: str,
    say: Callable[[str], None],
    way_out: str = _BACKFILL_WAY_OUT,
) -> Iterator[HeldSwitch]:
    """Hold the lock for changes to a pipeline's table in ``with``; wait for other backfills.

    Backfills and upkeep wait for each other without a time limit, as Dagster launches a backfill
    for each selected range; a promotion, rollback or discard that is under way is not waited for.

    Args:
        loaded: The pipeline.
        doing: What the body does, such as ``backfill from … until …``; others are told.
        say: Called with a line of text if another one is waited for.
        way_out: What holds if the process is ended meanwhile, as a clause; others are told.

    Raises:
        StateError: A promotion, rollback or discard is under way; names its process (transient).
        UnavailableError: The state's store does not answer.
    """
    is_told = False
    while (turn := take_range_lock(loaded.state)) is None:
        if not is_told:
            holder = _holder(loaded)
            who = "" if holder is None else f" {holder.in_words()}"
            say(f"The {doing} waits until another backfill or upkeep of the table has ended.{who}")
        is_told = True
        time.sleep(POLL_S)
    try:
        with hold_switch_lock(loaded, doing, way_out=way_out) as held:
            yield held
    finally:
        turn.release()


def _holder(loaded: LoadedPipeline) -> SwitchHolder | None:
    with suppress(HybridError):
        return loaded.state.read(SwitchHolder.NAME, SwitchHolder)
    return None


def _held_by_another(loaded: LoadedPipeline, doing: str) -> StateError:
    name = loaded.pipeline.name
    holder = _holder(loaded)
    message = (
        f"The {doing} can't begin: another process is changing the table of pipeline `{name}`, and "
        "two must not do so at the same time."
    )
    hint = "Wait until that has ended, then try again."
    if holder is not None:
        message = f"{message} {holder.in_words()}"
        free = "" if loaded.state.is_local else f" within {LAUNCH_TTL_S} s"
        then = f"; then {holder.way_out}" if holder.way_out else ""
        hint = (
            f"{hint} If it hangs, end that process (`kill {holder.pid}` on {holder.host}), which "
            f"frees the lock{free}{then}."
        )
    return StateError(message, hint, transient=True, pipeline=name)
