"""One Spark run at a time for each generation: a lock that the kernel frees with its holder."""

from __future__ import annotations

import fcntl
import time
from types import TracebackType
from typing import IO

from sources.errors import StateError
from sources.state import Generation

_NAME = "run/query.lock"
_TRIES = 20
_PAUSE_S = 0.05


class QueryLock:
    """Held by a driver as long as it lives; two drivers on one checkpoint can't both run."""

    def __init__(self, generation: Generation) -> None:
        self._path = generation.path(_NAME)
        self._file: IO[bytes] | None = None

    def __enter__(self) -> QueryLock:
        """Take the lock.

        Raises:
            StateError: Another run of this generation holds it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("ab")
        # Whoever looks whether a run is alive holds the lock for a moment.
        for _ in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE_S)
        else:
            file.close()
            message = f"Another run of this pipeline is active (it holds {self._path})."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
        self._file = file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the lock."""
        if self._file is not None:
            self._file.close()


def is_held(generation: Generation) -> bool:
    """Whether a run of this generation is alive."""
    path = generation.path(_NAME)
    if not path.exists():
        return False
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
