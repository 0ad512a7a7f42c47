"""One change at a time of which generation serves; a second one is told who is at it.

The lock itself names nobody, so its holder writes a document next to it. That one is for people
alone: it is replaced with each step, and nothing is decided by it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from orchestration.display import ago, moment
from sources.common.positions import Record, now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.storage.folder import Folder
from spark_jobs.run_state.lease import LAUNCH_TTL_S
from spark_jobs.run_state.lock import take_switch_lock


class SwitchHolder(Record):
    """Who holds the lock for changing which generation serves.

    Attributes:
        host: Name of the holder's machine.
        pid: Its process there.
        since_ms: When it took the lock, in Unix milliseconds.
        doing: What it does, such as ``promotion of g2``.
        by: Who requested that, as given; None if no name was given.
        step: The step that it has come to; None before the first one.
    """

    NAME: ClassVar = "switch-holder.json"

    host: str
    pid: int
    since_ms: int
    doing: str
    by: str | None = None
    step: str | None = None

    def in_words(self) -> str:
        """Return who holds the lock, since when, and what they are doing: a sentence."""
        person = "" if self.by is None else f", requested by {self.by}"
        step = "" if self.step is None else f", step {self.step}"
        return (
            f"It is process {self.pid} on {self.host}, since {moment(self.since_ms)} UTC "
            f"({ago(self.since_ms, now_ms())}): {self.doing}{person}{step}."
        )


class HeldSwitch:
    """The lock for changing which generation serves, as its holder has it.

    Args:
        home: The pipeline's folder in the state folder.
        holder: What others are told.
    """

    def __init__(self, home: Folder, holder: SwitchHolder) -> None:
        self._home = home
        self._holder: SwitchHolder | None = holder
        self._write()

    def note(self, step: str) -> None:
        """Let others see which step has begun; does nothing once the lock is free.

        Args:
            step: Such as ``2 of 5: listing the files of g2``.
        """
        if self._holder is not None:
            self._holder = self._holder.model_copy(update={"step": step})
            self._write()

    def close(self) -> None:
        """Remove what others are told, before the lock is freed."""
        self._holder = None
        with suppress(HybridError):
            self._home.delete(SwitchHolder.NAME)

    def _write(self) -> None:
        # It is for people: without it they are told less, and the change goes on.
        with suppress(HybridError):
            if self._holder is not None:
                self._home.replace(SwitchHolder.NAME, self._holder)


@contextmanager
def alone(loaded: LoadedPipeline, doing: str, by: str | None = None) -> Iterator[HeldSwitch]:
    """Hold the lock for changing which generation serves, while the body of ``with`` runs.

    Args:
        loaded: The pipeline.
        doing: What the body does, such as ``promotion of g2``; others are told.
        by: Who requested it.

    Raises:
        StateError: Another process holds it; names that process (transient).
    """
    if (lock := take_switch_lock(loaded.state)) is None:
        raise _held_by_another(loaded)
    try:
        holder = SwitchHolder(
            host=socket.gethostname(), pid=os.getpid(), since_ms=now_ms(), doing=doing, by=by
        )
        held = HeldSwitch(loaded.state, holder)
        try:
            yield held
        finally:
            held.close()
    finally:
        lock.release()


def _held_by_another(loaded: LoadedPipeline) -> StateError:
    name = loaded.pipeline.name
    holder: SwitchHolder | None = None
    with suppress(HybridError):
        holder = loaded.state.read(SwitchHolder.NAME, SwitchHolder)
    message = (
        f"Another process is changing which generation of pipeline `{name}` serves; two must not "
        "do so at the same time."
    )
    hint = "Wait until `hybrid generation list P` shows the change, then repeat the command."
    if holder is not None:
        message = f"{message} {holder.in_words()}"
        free = "" if loaded.state.is_local else f" within {LAUNCH_TTL_S} s"
        hint = (
            f"{hint} If it hangs, end that process (`kill {holder.pid}` on {holder.host}), which "
            f"frees the lock{free}; then `hybrid generation finish P` completes what it began, and "
            "`hybrid generation abort P` gives it up."
        )
    return StateError(message, hint, transient=True, pipeline=name)
