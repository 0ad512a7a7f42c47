"""Launch lock and query lock: one driver per generation; whether one is launched or alive.

The *launch lock* is taken before anything is started, and passed on to the process that is: of two
launches at the same time only one continues, and a later observer sees that a run is there. The
*query lock* is held by the driver itself, so that a driver started by hand is seen, too. In a store
one lease is both.
"""

from __future__ import annotations

import os
import uuid

from sources.errors import StateError
from sources.state.generation import Generation
from spark_jobs.run_state import lease
from spark_jobs.run_state.lease import Lease, SeenLease
from spark_jobs.run_state.lock import Lock, is_file_locked, take_file, take_named

_QUERY = "run/query.lock"
_LAUNCH = "run/launch.lock"
LEASE = "run/lease.json"
"""Document of the lease of a generation's driver, relative to its folder."""


class QueryLock:
    """Lock that a driver holds while it lives, so that no two drivers use one checkpoint.

    A context manager; entering it raises StateError if another driver holds the lock. If the driver
    is killed, a kernel lock is free at once, a lease after
    :data:`~spark_jobs.run_state.lease.TTL_S`.

    Args:
        generation: State folder of the generation (one computation of the whole table).
        launch_id: The launch of the driver, whose lease it takes over; None for one without.
    """

    def __init__(self, generation: Generation, launch_id: str | None = None) -> None:
        self._generation = generation
        self._holder = launch_id or uuid.uuid4().hex
        self._file: int | None = None
        self._lease: Lease | None = None

    def __enter__(self) -> QueryLock:
        """Take the lock; raise StateError, which is transient, if another driver holds it."""
        if self._generation.is_local:
            self._file = take_file(self._generation.path(_QUERY))
        else:
            self._lease = lease.take(self._generation, LEASE, self._holder, is_driven=True)
        if self._file is None and self._lease is None:
            path, name = query_lock_path(self._generation), self._generation.name
            message = (
                f"Another run of generation {name} holds the lock {path} and may be writing to the "
                "table. Two drivers must not share a checkpoint, so this one does nothing."
            )
            stop = f"`hybrid stop P --generation {name}`"
            hint = f"Wait until that run has ended, or end it with {stop}, then try again."
            raise StateError(message, hint, transient=True, file=path)
        return self

    @property
    def is_lease(self) -> bool:
        """Whether it is a lease rather than a kernel lock."""
        return self._lease is not None

    def require_held(self) -> None:
        """Refuse to continue with an expired lease, which another driver may have taken.

        Does nothing for a kernel lock, which can't expire.

        Raises:
            StateError: The lease is lost (transient).
        """
        if self._lease is None or self._lease.is_held():
            return
        path = self._generation.location(LEASE)
        message = (
            f"The lease {path} of this driver could not be renewed in time, so another driver may "
            "have been started. This driver stops its query now."
        )
        hint = (
            "Nothing is lost: the next run resumes from the last committed micro-batch, and each "
            "micro-batch is written once. Check that this machine reaches the store of the state."
        )
        raise StateError(message, hint, transient=True, file=path)

    def __exit__(self, *_: object) -> None:
        """Free the lock, so that another driver may start."""
        if self._file is not None:
            os.close(self._file)
        if self._lease is not None:
            self._lease.release()


def take_launch_lock(generation: Generation, launch_id: str) -> Lock | None:
    """Take the launch lock of a generation, so that no other process launches a driver.

    None if another launch, or its driver, holds it.

    Args:
        generation: State folder of the generation.
        launch_id: The launch; its driver may hold the lock, too.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
        UnavailableError: The store of the state does not answer.
    """
    return take_named(generation, _LAUNCH, LEASE, launch_id)


def launch_lock_path(generation: Generation) -> str:
    """Return path or URL of the file of a generation's launch lock; it need not exist."""
    return generation.location(_LAUNCH if generation.is_local else LEASE)


def query_lock_path(generation: Generation) -> str:
    """Return path or URL of the file of a generation's query lock; it need not exist."""
    return generation.location(_QUERY if generation.is_local else LEASE)


def is_launched(generation: Generation) -> bool:
    """Return whether a process holds the launch lock: one that launches, or the driver itself.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if generation.is_local:
        return is_file_locked(generation.path(_LAUNCH))
    seen = seen_lease(generation)
    return seen is not None and seen.is_valid


def is_held(generation: Generation) -> bool:
    """Return whether a driver of this generation is alive, that is, holds the query lock.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if generation.is_local:
        return is_file_locked(generation.path(_QUERY))
    seen = seen_lease(generation)
    return seen is not None and seen.is_valid and seen.is_driven


def seen_lease(generation: Generation) -> SeenLease | None:
    """Read the lease of a generation's driver; None if the state has kernel locks, or no lease.

    Raises:
        StateError: Its document is damaged.
        UnavailableError: The store of the state does not answer.
    """
    return None if generation.is_local else lease.look(generation, LEASE)
