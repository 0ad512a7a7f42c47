"""A limit of memory for processes that run already: the kernel kills whoever needs more."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.services.processes import runs, wait_for

_ROOT = Path("/sys/fs/cgroup")
_LIMIT_BYTES = 1 << 20
_DEADLINE_S = 120


class MemoryLimit:
    """A control group whose processes have one megabyte for all that they allocate from then on.

    Args:
        folder: The group's folder.
        events: The file in it that counts kills.
    """

    def __init__(self, folder: Path, events: str) -> None:
        self._folder = folder
        self._events = events

    def kill(self, pid: int) -> None:
        """Put a process into the group, and wait until the kernel has killed it."""
        before = self._kills()
        (self._folder / "cgroup.procs").write_text(str(pid))
        wait_for(lambda: not runs(pid), f"the end of process {pid}", _DEADLINE_S)
        assert self._kills() > before, "something else ended it"

    def _kills(self) -> int:
        lines = (self._folder / self._events).read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])


@contextmanager
def memory_limit() -> Iterator[MemoryLimit]:
    """Make the group; skips the test where none may be made."""
    parent, limit, events = _ROOT / "memory", "memory.limit_in_bytes", "memory.oom_control"
    if not parent.is_dir():
        parent, limit, events = _ROOT, "memory.max", "memory.events"
    folder = parent / f"hybrid-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(_LIMIT_BYTES))
        if (swap := folder / "memory.swap.max").exists():
            swap.write_text("0")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no process may get a limit of memory here: {error}")
    try:
        yield MemoryLimit(folder, events)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    def is_removed() -> bool:
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        with suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    wait_for(is_removed, f"the removal of {folder}", _DEADLINE_S)
