"""Socket of a driver that is given runs, which only processes of the same user connect to."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sources.errors import InputError

ANSWER_S = 60.0
"""Longest time in seconds that a driver takes to answer, unless it is frozen."""
_NAME = "socket"
_BACKLOG = 128


def listen(folder: Path) -> socket.socket:
    """Open the socket of a driver that is given runs; an old socket in the folder is replaced.

    The caller must hold the driver's lock.

    Raises:
        OSError: The folder can't be written.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A driver that was killed has left its socket.
    (folder / _NAME).unlink(missing_ok=True)
    with _short(folder) as name:
        server.bind(name)
        # Whoever may write to it runs code as this user.
        os.chmod(name, 0o600)
    server.listen(_BACKLOG)
    return server


def connect(client: socket.socket, folder: Path) -> int:
    """Connect to the process that listens in a folder, and return its process id.

    Only a process of this user is accepted, as a request carries the environment with passwords.

    Raises:
        OSError: No process listens there.
        InputError: Another user listens there.
    """
    client.settimeout(ANSWER_S)
    with _short(folder) as name:
        client.connect(name)
    size = struct.calcsize("3i")
    peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, user, _ = struct.unpack("3i", peer)
    if user != os.geteuid():
        message = (
            f"A process of another user (uid {user}, process {pid}) listens as the driver "
            f"`{folder.name}`, in {folder}. Nothing was sent to it."
        )
        hint = (
            "Name a cache folder of your own in HYBRID_CACHE, or run the command as the user that "
            "runs the driver; a cache folder must not be writable for others."
        )
        raise InputError(message, hint, file=str(folder), value=str(user))
    return int(pid)


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a name of the folder's socket that is short enough for the kernel (107 bytes)."""
    held = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{held}/{_NAME}"
    finally:
        os.close(held)
