"""Kills at any write: a process is gone at the n-th write, before or after it took effect."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer

from sources.storage.folder import Folder


class KilledError(BaseException):
    """What a kill looks like from inside: no handler of ordinary errors sees it."""


class Interrupts:
    """Counts the writes of a process, and ends it at the one that was chosen.

    Once it is dead, each further write is refused: cleaning up after a SIGKILL is impossible.

    Attributes:
        count: Writes since it was armed.
        at: Half steps until the kill; odd ones lie between a write and what follows it.
        is_dead: Whether the process is gone.
        where: The write at which it was killed.
    """

    def __init__(self) -> None:
        self.count = 0
        self.at: int | None = None
        self.is_dead = False
        self.where = ""

    @contextmanager
    def armed(self, at: int | None) -> Iterator[None]:
        """Kill whoever writes in here at the given half step; None lets everybody live."""
        self.count, self.at, self.is_dead, self.where = 0, at, False, ""
        try:
            yield
        finally:
            self.at, self.is_dead = None, False

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Let another process do what stands in here: it lives."""
        at, self.at = self.at, None
        try:
            yield
        finally:
            self.at = at

    def tick(self, where: str) -> None:
        """Count a half step."""
        if self.at is None:
            return
        self.count += 1
        if self.is_dead or self.count >= self.at:
            self.where = self.where or where
            self.is_dead = True
            raise KilledError(where)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that may be killed before it takes effect, and after it."""

        @functools.wraps(function)
        def write(*args: Any, **kwargs: Any) -> Any:
            self.tick(f"before {name}")
            result = function(*args, **kwargs)
            self.tick(f"after {name}")
            return result

        return write


def patch_writes(patch: pytest.MonkeyPatch, interrupts: Interrupts) -> None:
    """Make every write of the state and of Delta tables by this process interruptible."""
    places: list[tuple[Any, str]] = [
        (Folder, "replace_bytes"),
        (Folder, "put_if_absent"),
        (Path, "unlink"),
        (Path, "replace"),
        (os, "link"),
        (os, "rename"),
        (shutil, "rmtree"),
        (DeltaTable, "create_write_transaction"),
        (TableAlterer, "set_table_properties"),
    ]
    for owner, name in places:
        patch.setattr(owner, name, interrupts.around(name, getattr(owner, name)))
    # The disk's promise is not what is searched here, and it is most of the time.
    patch.setattr(os, "fsync", lambda _: None)
