"""Whether a process is the driver: the number in a document may be somebody else's by now.

Asked before a process is ended. The driver is the process that holds the query lock
(:mod:`spark_jobs.run_state.driver_lock`).
"""

from __future__ import annotations

import os
from pathlib import Path

from sources.state.generation import Generation
from spark_jobs.run_state.driver_lock import query_lock_path, seen_lease


def is_driver(generation: Generation, pid: int) -> bool:
    """Return whether a process of this machine holds the query lock, and so is the driver.

    Before a process is ended that only a document names: a killed driver's number may be anybody's
    by now, and in another container it is somebody else's.

    Raises:
        StateError: The lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if not generation.is_local:
        seen = seen_lease(generation)
        return seen is not None and seen.is_valid and seen.is_driven and seen.is_kept_by(pid)
    try:
        lock = os.stat(query_lock_path(generation))
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        # There is no such process, or it is another user's.
        return False
    return any(_is_open_as(each, lock) for each in descriptors)


def is_driven_here(generation: Generation) -> bool:
    """Return whether a process that is seen from here holds the query lock.

    Not seen are processes of other machines, of other containers, and, on a file system, of users
    whose open files this one may not list.

    Raises:
        StateError: The lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if not generation.is_local:
        seen = seen_lease(generation)
        return seen is not None and seen.is_valid and seen.is_driven and seen.is_from_here
    numbers = (int(each.name) for each in Path("/proc").glob("[0-9]*"))
    return any(is_driver(generation, pid) for pid in numbers)


def _is_open_as(descriptor: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), file)
    except OSError:
        # Closed since it was listed.
        return False
