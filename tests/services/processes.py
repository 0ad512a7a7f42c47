"""Looking at processes from outside."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

NEVER_ENDS = "import time; time.sleep(600)"
"""A program, or its last line, that ends only if something ends it."""


def wait_for(
    condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = 120.0
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)


def is_awaited(lock: Path) -> bool:
    """Whether somebody waits for a lock that another one holds."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any(" -> " in line and f":{lock.stat().st_ino} " in line for line in lines)


class Running(NamedTuple):
    """A process that has not ended, by Linux's ``/proc``.

    Attributes:
        pid: Its id.
        parent: Process that it belongs to.
        group: Its process group.
        command: Program and arguments, with a blank in between.
    """

    pid: int
    parent: int
    group: int
    command: str


def all_running() -> Iterator[Running]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # After the program's name, which may have parentheses.
            state, parent, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
            if state != "Z":
                yield Running(int(folder.name), int(parent), int(group), os.fsdecode(command))


def runs(pid: int) -> bool:
    return any(each.pid == pid for each in all_running())


def child_of(pid: int) -> int:
    """The first child; ProcessLookupError if there is none."""
    children = [each.pid for each in all_running() if each.parent == pid]
    if not children:
        raise ProcessLookupError(f"process {pid} has no child")
    return min(children)
