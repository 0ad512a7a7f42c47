"""Looking at processes from outside."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state = found.stdout.strip()
    return bool(state) and not state.startswith("Z")


def child_of(pid: int) -> int:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])
