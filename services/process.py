"""How a server is started under its guard, ended, and what it said last."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from services import guard

HOST = "127.0.0.1"
GRACE_S = 20.0
_TAIL_LINES = 25


class Service(ABC):
    """A server that runs as long as a ``with`` block."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers; nothing if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """End it; nothing if it is not running."""

    def __enter__(self) -> Self:
        """Start it; see ``start``."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command that ends with this process, however that ends.

    Args:
        command: What to start.
        log: Gets what it prints, appended.

    Returns:
        The guard; its status is the command's. ``end`` it.
    """
    limits = ["--grace", str(GRACE_S), "--asker", str(os.getpid())]
    with log.open("ab") as output:
        return subprocess.Popen(
            # -I: the guard needs nothing but the standard library, whatever PYTHONPATH says.
            [sys.executable, "-I", guard.__file__, *limits, "--", *command],
            # Never handed on to other children, so its end arrives with the end of this process.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal goes to a whole group; this one is ended by `end` alone.
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End what ``spawn`` started: SIGTERM, SIGKILL after ``GRACE_S``; returns when it is gone."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    # A fork of this process may hold another copy of the pipe.
    process.terminate()
    try:
        process.wait(GRACE_S + 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_lines(printed: bytes) -> str:
    """The end of a log, as much as fits an error message."""
    lines = printed.decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_TAIL_LINES:])


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now; another process may be faster."""
    with contextlib.ExitStack() as stack:
        # All are held until all are known, so that they differ.
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]
