"""Looking at processes from outside."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

NEVER_ENDS = "import time; time.sleep(600)"
"""A program, or its last line, that ends only if something ends it."""


def wait_for(
    condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = 30.0
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


def runs(pid: int) -> bool:
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state = found.stdout.strip()
    return bool(state) and not state.startswith("Z")


def child_of(pid: int) -> int:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])
