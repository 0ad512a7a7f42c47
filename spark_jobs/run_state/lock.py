"""One Spark run at a time for each generation: locks that the kernel frees when the holder ends.

There are two. The *launch lock* is taken before anything is started, and inherited by the process
that is: of two launches at the same time only one continues, and a later observer sees that a run
is there. The *query lock* is held by the driver itself, so that a driver started by hand is seen,
too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from sources.common.state import Generation
from sources.errors import StateError

_QUERY = "run/query.lock"
_LAUNCH = "run/launch.lock"
_SWITCH = "switch.lock"
_TRIES = 20
_PAUSE_S = 0.05
_FULL = (errno.ENOSPC, errno.EDQUOT)


class QueryLock:
    """Lock that a driver holds as long as it lives: never two drivers on one checkpoint.

    A context manager. The kernel frees the lock if the driver is killed.

    Args:
        generation: State folder of the generation (one computation of the whole table).
    """

    def __init__(self, generation: Generation) -> None:
        self._path = generation.path(_QUERY)
        self._held: int | None = None

    def __enter__(self) -> QueryLock:
        """Take the lock.

        Raises:
            StateError: Another run of this generation holds it, or its file can't be written.
        """
        self._held = _take(self._path)
        if self._held is None:
            message = (
                "Another run of this pipeline is active and may be writing to the table: its "
                f"driver holds the lock {self._path}. Two drivers must not share a checkpoint."
            )
            hint = (
                "Wait until that run has ended, or end it with `hybrid stop P`, then run the same "
                "command again."
            )
            raise StateError(message, hint, transient=True, file=str(self._path))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the lock, so that another driver may start."""
        if self._held is not None:
            os.close(self._held)


def take_launch_lock(generation: Generation) -> int | None:
    """Take the launch lock of a generation, so that no other process launches a driver.

    Returns:
        A file descriptor; the lock is free once every process that inherited it has ended. None
        if another launch holds it.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
    """
    return _take(generation.path(_LAUNCH))


def launch_lock_path(generation: Generation) -> Path:
    """Return the file of a generation's launch lock, for messages; it may not exist yet."""
    return generation.path(_LAUNCH)


def is_launched(generation: Generation) -> bool:
    """Return whether a process holds the launch lock: a launching one, or the one it started."""
    return _is_held(generation.path(_LAUNCH))


def is_held(generation: Generation) -> bool:
    """Return whether a driver of this generation is alive: whether one holds the query lock."""
    return _is_held(generation.path(_QUERY))


def take_switch_lock(home: Path) -> int | None:
    """Take the lock for changing which generation's table readers see: one change at a time.

    Args:
        home: The pipeline's folder in the state folder.

    Returns:
        A file descriptor: close it to free the lock. None if another process holds it.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
    """
    return _take(home / _SWITCH)


def is_switching(home: Path) -> bool:
    """Return whether a process holds the switch lock: a promotion or a rollback is under way.

    Args:
        home: The pipeline's folder in the state folder.
    """
    return _is_held(home / _SWITCH)


def _take(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"The lock {path} can't be taken: {error.strerror}. Nothing was started."
        hint = (
            "Free space on the disk of the state folder, or make the folder writable for this "
            "user, then run the same command again."
        )
        # A full disk may have space again by itself.
        is_full = error.errno in _FULL
        raise StateError(message, hint, transient=is_full, file=str(path)) from error
    # A process that checks whether a run is alive holds the lock for a moment.
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return file
    os.close(file)
    return None


def _is_held(path: Path) -> bool:
    if not path.exists():
        return False
    # A read-only file is enough to check. Opened for reading, as over NFS a shared lock is one on
    # the file's bytes.
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
