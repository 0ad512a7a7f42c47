"""One Spark run at a time for each generation: locks that the kernel frees with their holders.

Two of them. The *launch lock* is taken before anything is started, and handed to the process that
is: of two launches at once one goes on, and whoever comes back later sees that a run is there. The
*query lock* is held by the driver itself, so that a driver started by hand is seen as well.
"""

from __future__ import annotations

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


class QueryLock:
    """Held by a driver as long as it lives; two drivers on one checkpoint can't both run."""

    def __init__(self, generation: Generation) -> None:
        self._path = generation.path(_QUERY)
        self._held: int | None = None

    def __enter__(self) -> QueryLock:
        """Take the lock.

        Raises:
            StateError: Another run of this generation holds it, or it can't be written.
        """
        self._held = _take(self._path)
        if self._held is None:
            message = f"Another run of this pipeline is active (it holds {self._path})."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the lock."""
        if self._held is not None:
            os.close(self._held)


def take_launch_lock(generation: Generation) -> int | None:
    """The launch lock as a file descriptor, which frees it once all who inherited it are gone.

    Returns:
        None if a launch holds it.

    Raises:
        StateError: The state folder can't be written.
    """
    return _take(generation.path(_LAUNCH))


def is_launched(generation: Generation) -> bool:
    """Whether a launch, or the process that it started, is there."""
    return _is_held(generation.path(_LAUNCH))


def is_held(generation: Generation) -> bool:
    """Whether a driver of this generation is alive."""
    return _is_held(generation.path(_QUERY))


def take_switch_lock(home: Path) -> int | None:
    """The lock of who changes which generation serves, as :func:`take_launch_lock`.

    Args:
        home: The pipeline's folder in the state folder.
    """
    return _take(home / _SWITCH)


def is_switching(home: Path) -> bool:
    """Whether somebody is about to change which generation serves."""
    return _is_held(home / _SWITCH)


def _take(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"The lock {path} can't be taken: {error.strerror}."
        raise StateError(message, "Free space, or make it writable, and run again.") from error
    # Whoever looks whether a run is alive holds the lock for a moment.
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
    # Also where it is read-only: who only looks writes nothing. Readable, as over NFS a shared lock
    # is one on the file's bytes.
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
