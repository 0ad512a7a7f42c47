"""Requests to a shared driver to run and stop pipelines, and its answers.

A request to run carries the file
descriptors of the launch lock, so that the kernel frees the lock with the process that runs the
pipeline, however it ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from sources.common.cache import cache_folder
from sources.common.state_document import Part
from spark_jobs.launch.user_socket import ANSWER_S, connect

_MOST_DESCRIPTORS = 8


class RunRequest(Part):
    """Request to a shared driver to run a pipeline.

    Attributes:
        pipeline: Name of the pipeline.
        file: Its YAML file.
        sources: Names of the sources to be read one after the other.
        launch_id: Id of the launch.
        generation: Name of the generation that the launch is for.
        log: Log file of the run.
        settings: Digests of the settings that all pipelines of one driver must share, by field.
        environment: Environment variables of the process that launches, which the file refers to.
    """

    pipeline: str
    file: str
    sources: list[str]
    launch_id: str
    generation: str
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

    Raises:
        InputError: The process at a driver's socket is of another user.
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


def _read(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))
