"""Guard program: runs a command, and ends it together with the process that started it.

    python guard.py [--grace SECONDS] [--owner PID] -- command argument ...

The owner holds the other end of this program's standard input. Once that end is closed, on purpose
or because the owner was killed, or on SIGTERM, the command and its children get SIGTERM, and
SIGKILL after the grace period. The same happens when the owner has ended and only forks of it hold
that end. Exits with the command's status, or with 128 plus the number of the signal that ended it.
Started as a file, it works from any folder and imports nothing of the project.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

_POLL_S = 0.05
_LOOK_S = 1.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str] | None = None) -> int:
    """Run a command to its end, or end it with the process that owns it.

    Args:
        arguments: Arguments of this program; those of the command line if left out.

    Returns:
        The command's exit status, or 128 plus the number of the signal that ended it.
    """
    parser = argparse.ArgumentParser(description="Run a command that ends with its owner.")
    parser.add_argument("--grace", type=float, default=20.0, help="seconds from TERM to KILL")
    # If the parent has ended before this line, the default would be another process.
    parser.add_argument("--owner", type=int, default=os.getppid(), help="process to end with")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    wake = _signals_as_bytes()
    child = subprocess.Popen(
        options.command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - no threads in here
    )
    while child.poll() is None and not _must_end(wake, options.owner):
        pass
    _end_group(child, options.grace)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _signals_as_bytes() -> socket.socket:
    """Return a socket that receives one byte for each signal, for ``select`` to wait for."""
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    # Detached: the number stays valid for as long as signals may arrive.
    writer.detach()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _must_end(wake: socket.socket, owner: int) -> bool:
    """Wait for an event, for a second at most; return whether the command must end."""
    ready, _, _ = select.select([wake, sys.stdin], [], [], _LOOK_S)
    if os.getppid() != owner:
        return True
    if wake in ready and any(number != signal.SIGCHLD for number in wake.recv(64)):
        return True
    return sys.stdin in ready and not os.read(sys.stdin.fileno(), 4096)


def _end_group(child: subprocess.Popen[bytes], grace_s: float) -> None:
    deadline = time.monotonic() + grace_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    # Also when the command has ended: its own children may be left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _die_with_parent(guard: int) -> Callable[[], None] | None:
    """Return what the command's process runs first: the kernel kills it with its guard (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            # The guard ended before the kernel was asked.
            os._exit(1)

    return ask_kernel


if __name__ == "__main__":
    sys.exit(main())
