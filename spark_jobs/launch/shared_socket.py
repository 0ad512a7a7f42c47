"""Socket of a shared driver: requests to run and stop pipelines, and the answers.

It lies in a folder of this machine that belongs to the user. A request to run carries the file
descriptors of the launch lock, so that the kernel frees the lock with the process that runs the
pipeline, however it ends.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from sources.common.cache import cache_folder
from sources.common.positions import Part
from sources.errors import InputError

ANSWER_S = 60.0
"""Longest time in seconds that a shared driver takes to answer, unless it is frozen."""
_NAME = "socket"
_BACKLOG = 128
_MOST_DESCRIPTORS = 8


class RunRequest(Part):
    """Request to a shared driver to run a pipeline.

    Attributes:
        pipeline: Name of the pipeline.
        file: Its YAML file.
        sources: Names of the sources to be read one after the other.
        launch_id: Id of the launch.
        log: Log file of the run.
        settings: Digests of the settings that all pipelines of one driver must share, by field.
        environment: Environment variables of the process that launches, which the file refers to.
    """

    pipeline: str
    file: str
    sources: list[str]
    launch_id: str
    log: str
    settings: dict[str, str]
    environment: dict[str, str]


class Request(Part):
    """Request to a shared driver; exactly one of its fields is set.

    Attributes:
        run: Run this pipeline.
        stop: Stop the run of the launch with this id.
        fits: Answer whether a pipeline with these digests of settings can run in the driver.
    """

    run: RunRequest | None = None
    stop: str | None = None
    fits: dict[str, str] | None = None


class Answer(Part):
    """Answer of a shared driver to a request: whether it is carried out, or how settings differ.

    Attributes:
        differs: Fields whose values differ from those that the driver was started with; empty if
            the request is carried out.
        started_by: Name of the pipeline whose launch has started the driver.
        members: Names of the pipelines that it runs.
        is_ending: Whether it ends now, as it runs no pipeline and settings differ.
    """

    differs: list[str] = Field(default_factory=list)
    started_by: str = ""
    members: list[str] = Field(default_factory=list)
    is_ending: bool = False


def folder_of(group: str) -> Path:
    """Return the folder of a shared driver on this machine, with its socket; it need not exist.

    Args:
        group: Name of the driver (``spark.group``).
    """
    return _folders() / group


def folder_of_process(pid: int) -> Path | None:
    """Return the folder of the shared driver that is this process; None if it is none.

    Args:
        pid: Process id.
    """
    return next((folder for folder in _folders().glob("*/") if pid_of(folder) == pid), None)


def log_of(folder: Path) -> Path:
    """Return the path of a shared driver's log file, for output that belongs to no pipeline."""
    return folder / "driver.log"


def ask(folder: Path, request: Request, descriptors: Sequence[int] = ()) -> Answer | None:
    """Send a request to a shared driver and wait up to 60 s for its answer.

    None if there is no driver, or it ends without having answered.

    Args:
        folder: The driver's folder.
        request: What it is asked.
        descriptors: File descriptors to send along, which the driver then holds, too.

    Raises:
        TimeoutError: It does not answer: it is frozen.
        InputError: Another user listens there; nothing was sent.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            connect(client, folder)
            socket.send_fds(client, [b"\0"], descriptors)
            client.sendall(request.model_dump_json().encode())
            client.shutdown(socket.SHUT_WR)
            data = _read(client)
        except (FileNotFoundError, ConnectionError):
            return None
    return Answer.model_validate_json(data) if data else None


def pid_of(folder: Path) -> int | None:
    """Return the id of a shared driver's listening process, even if it hangs; None if none.

    Raises:
        InputError: Another user listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            return connect(client, folder)
        except (FileNotFoundError, ConnectionError):
            return None


def listen(folder: Path) -> socket.socket:
    """Open the socket of a shared driver; an old socket in the folder is replaced.

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


def receive(connection: socket.socket) -> tuple[Request, list[int]]:
    """Read a request and the file descriptors that came with it; the caller has to close them.

    Args:
        connection: Accepted connection of the driver's socket.

    Raises:
        OSError: The other side has ended, or sent nothing for 60 s.
        ValueError: It sent something else.
    """
    connection.settimeout(ANSWER_S)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, _MOST_DESCRIPTORS)
    for each in descriptors:
        os.set_inheritable(each, False)
    try:
        # Who only looks which process listens sends nothing.
        return Request.model_validate_json(_read(connection) or b"{}"), descriptors
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise


def _folders() -> Path:
    return cache_folder() / "drivers"


def connect(client: socket.socket, folder: Path) -> int:
    """Connect to the shared driver that listens in a folder, and return its process id.

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
            f"A process of another user (uid {user}, process {pid}) listens as the shared driver "
            f"`{folder.name}`, in {folder}. Nothing was sent to it."
        )
        hint = (
            "Name a cache folder of your own in HYBRID_CACHE, or run the command as the user that "
            "runs the driver; a cache folder must not be writable for others."
        )
        raise InputError(message, hint, file=str(folder), value=str(user))
    return int(pid)


def _read(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a name of the folder's socket that is short enough for the kernel (107 bytes)."""
    held = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{held}/{_NAME}"
    finally:
        os.close(held)
