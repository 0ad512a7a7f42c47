"""Starting a server under its guard, ending it, and reading the end of its log."""

from __future__ import annotations

import contextlib
import errno
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
    """Server that runs as long as a ``with`` block: started at its begin, ended at its end."""

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers; do nothing if it runs.

        Raises:
            RunError: The server ended at start, or did not answer in time.
            InputError: What the server needs is not installed.
        """

    @abstractmethod
    def stop(self) -> None:
        """End the server and wait until it has ended; do nothing if it is not running."""

    def __enter__(self) -> Self:
        """Start the server and wait until it answers; raises what :meth:`start` raises."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server, also if the block raised an error."""
        self.stop()


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command that ends when this process ends, for whatever reason.

    Args:
        command: The program and its arguments.
        log: File that the command's output is appended to.

    Returns:
        The process of the guard, the program that runs the command and ends it; its exit status is
        the command's. End it with :func:`end`.

    Raises:
        OSError: The log can't be written.
    """
    limits = ["--grace", str(GRACE_S), "--owner", str(os.getpid())]
    with log.open("ab") as output:
        return subprocess.Popen(
            # -I: the guard needs nothing but the standard library, whatever PYTHONPATH says.
            [sys.executable, "-I", guard.__file__, *limits, "--", *command],
            # Not inherited by other children, so that it is closed when this process ends.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal goes to a whole group; this one is ended by `end` alone.
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End what :func:`spawn` started: SIGTERM, then SIGKILL after ``GRACE_S`` seconds.

    Returns when the guard's process has ended; no error if it had ended before.

    Args:
        process: The guard's process, as :func:`spawn` returned it.
    """
    if process.stdin is not None:
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
    """Return the last 25 lines of a server's output that are not blank, for an error message."""
    lines = printed.decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_TAIL_LINES:])


def free_ports(count: int) -> list[int]:
    """Return different TCP ports of the loopback address that are free now.

    Another process may take one before it is used, so a caller has to be ready to try again.
    """
    with contextlib.ExitStack() as stack:
        # All stay open until all are known, so that they differ.
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]


def is_taken(port: int) -> bool:
    """Return whether another process listens on a TCP port of the loopback address."""
    with socket.socket() as probe:
        # As servers do: a port whose connections are just being closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
