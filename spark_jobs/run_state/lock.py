"""Locks that allow one Spark run per generation, and are free once their holder has ended.

There are two. The *launch lock* is taken before anything is started, and passed on to the process
that is: of two launches at the same time only one continues, and a later observer sees that a run
is there. The *query lock* is held by the driver itself, so that a driver started by hand is seen,
too. A third one, for the whole pipeline, is held while its table is changed other than by a run:
another generation is made to serve, or a range is replaced. Replacements take turns by a fourth.
A fifth, on a file system only, is held for each merge into the table, and for each commit that
would make one fail. Who copies a database table holds one next to the files. Extensions take others
of their own.

On a file system the kernel keeps the locks. In a store without a kernel a lease does, which is
one for launch and query (:mod:`spark_jobs.run_state.lease`).
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sources.errors import StateError
from sources.state.generation import Generation
from sources.storage.documents import make_folder
from sources.storage.folder import FULL, Folder
from spark_jobs.run_state import lease
from spark_jobs.run_state.lease import LAUNCH_TTL_S, Lease, SeenLease

_QUERY = "run/query.lock"
_LAUNCH = "run/launch.lock"
_TABLE = "run/table.lock"
_SWITCH = "switch.lock"
_RANGE = "range.lock"
_DRIVER = "driver.lock"
LEASE = "run/lease.json"
"""Document of the lease of a generation's driver, relative to its folder."""
_SWITCH_LEASE = "switch-lease.json"
_RANGE_LEASE = "range-lease.json"
_TRIES = 20
_PAUSE_S = 0.05


class Lock(Protocol):
    """A lock that this process holds: one of the kernel, or a lease in a store.

    Attributes:
        descriptors: File descriptors that a process has to inherit in order to hold it, too; empty
            for a lease.
    """

    descriptors: tuple[int, ...]

    def is_held(self) -> bool:
        """Return whether it is certainly still this process's: a lease may have expired."""

    def hand_over(self, pid: int) -> None:
        """Leave the lock to a process that was started to hold it; this process no longer does.

        Args:
            pid: That process.
        """

    def release(self) -> None:
        """Free the lock at once, unless it was handed over to another process."""


class FileLock:
    """Lock on a file, which the kernel frees once every process that inherited it has ended.

    Args:
        descriptor: Descriptor of the file, which is locked (:func:`take_opened`).
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptors: tuple[int, ...] = (descriptor,)

    def is_held(self) -> bool:
        """Return whether it was neither released nor handed over: the kernel keeps it."""
        return bool(self.descriptors)

    def hand_over(self, _: int) -> None:
        """Close this process's descriptor; the child process that inherited it keeps the lock."""
        self.release()

    def release(self) -> None:
        """Close this process's descriptor; a second call does nothing."""
        for each in self.descriptors:
            os.close(each)
        self.descriptors = ()


class _LeaseLock:
    """A lock that is a lease."""

    def __init__(self, held: Lease) -> None:
        self.descriptors: tuple[int, ...] = ()
        self._held: Lease | None = held

    def is_held(self) -> bool:
        """Return whether the lease is neither lost nor near its expiry, nor handed over."""
        return self._held is not None and self._held.is_held()

    def hand_over(self, pid: int) -> None:
        """Leave the renewals to a process that has the same holder."""
        if self._held is not None:
            self._held.hand_over(pid)
        self._held = None

    def release(self) -> None:
        """Release the lease; repeating it, or calling it after a hand-over, does nothing."""
        if self._held is not None:
            self._held.release()
        self._held = None


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
            self._file = _take(self._generation.path(_QUERY))
        else:
            self._lease = lease.take(self._generation, LEASE, self._holder, is_driven=True)
        if self._file is None and self._lease is None:
            path = query_lock_path(self._generation)
            message = (
                "Another run of this pipeline is active and may be writing to the table: its "
                f"driver holds the lock {path}. Two drivers must not share a checkpoint, so this "
                "one ends before it reads or writes anything."
            )
            hint = "Wait until that run has ended, or end it with `hybrid stop P`, then try again."
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
    return _lock(generation, _LAUNCH, LEASE, launch_id)


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
        return _is_held(generation.path(_LAUNCH))
    seen = seen_lease(generation)
    return seen is not None and seen.is_valid


def is_held(generation: Generation) -> bool:
    """Return whether a driver of this generation is alive, that is, holds the query lock.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if generation.is_local:
        return _is_held(generation.path(_QUERY))
    seen = seen_lease(generation)
    return seen is not None and seen.is_valid and seen.is_driven


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
        lock = os.stat(generation.path(_QUERY))
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


def seen_lease(generation: Generation) -> SeenLease | None:
    """Read the lease of a generation's driver; None if the state has kernel locks, or no lease.

    Raises:
        StateError: Its document is damaged.
        UnavailableError: The store of the state does not answer.
    """
    return None if generation.is_local else lease.look(generation, LEASE)


def take_switch_lock(home: Folder) -> Lock | None:
    """Take the lock under which anything but a run changes the table; None if it is taken.

    Such as a promotion, or the replacement of a range.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
        UnavailableError: The store of the state does not answer.
    """
    return _lock(home, _SWITCH, _SWITCH_LEASE, uuid.uuid4().hex)


def take_range_lock(home: Folder) -> Lock | None:
    """Take the lock by which replacements of ranges exclude each other; None if it is taken.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
        UnavailableError: The store of the state does not answer.
    """
    return _lock(home, _RANGE, _RANGE_LEASE, uuid.uuid4().hex)


def take_lock(folder: Folder, name: str) -> Lock | None:
    """Take a lock of another name, which one process at a time can hold; None if it is taken.

    Args:
        folder: Folder of what the lock is about: one of an extension in the state folder, or the
            folder of a snapshot's files.
        name: Name of the lock, by which its file or lease is named.

    Raises:
        StateError: The folder can't be written; transient if its disk is full.
        UnavailableError: The folder's store does not answer.
    """
    return _lock(folder, f"{name}.lock", f"{name}-lease.json", uuid.uuid4().hex)


def is_switching(home: Folder) -> bool:
    """Return whether a process holds the switch lock, as during a promotion.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    if home.is_local:
        return _is_held(home.path(_SWITCH))
    seen = lease.look(home, _SWITCH_LEASE)
    return seen is not None and seen.is_valid


@contextmanager
def table_turn(generation: Generation) -> Iterator[None]:
    """Wait for the lock on merges into a generation's table, and hold it in the body of ``with``.

    Merges and other commits then don't make each other fail. Waits without a limit. Does nothing
    where the state is in a store, as a lease would cost more than a failed merge.

    Args:
        generation: State folder of the generation.

    Raises:
        StateError: The state folder can't be written.
    """
    if not generation.is_local:
        yield
        return
    with generation.writing():
        file = open_lock(generation.path(_TABLE))
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def take_driver_lock(home: Folder) -> Lock | None:
    """Take the lock that a shared driver holds while it lives; None if another one has it.

    Args:
        home: The driver's folder on this machine.

    Raises:
        StateError: The folder can't be written; transient if its disk is full.
    """
    return _lock(home, _DRIVER, "", uuid.uuid4().hex)


def _lock(folder: Folder, file: str, document: str, holder: str) -> Lock | None:
    if folder.is_local:
        taken = _take(folder.path(file))
        return None if taken is None else FileLock(taken)
    held = lease.take(folder, document, holder, is_driven=False, ttl_s=LAUNCH_TTL_S)
    return None if held is None else _LeaseLock(held)


def _take(path: Path) -> int | None:
    try:
        file = open_lock(path)
    except OSError as error:
        message = f"The lock {path} can't be taken: {error.strerror}. Nothing was started."
        hint = (
            "Free space on the disk of its folder, or make the folder writable for this user, then "
            "try again."
        )
        raise StateError(message, hint, transient=error.errno in FULL, file=str(path)) from error
    if take_opened(file):
        return file
    os.close(file)
    return None


def open_lock(path: Path) -> int:
    """Open a lock file, created with its folder if missing, and return its file descriptor.

    Nothing is locked yet.

    Raises:
        OSError: It can't be created.
    """
    # Documents are written into it, too.
    make_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def take_opened(descriptor: int) -> bool:
    """Try for a second to lock an open file; return whether that succeeded.

    Args:
        descriptor: Descriptor of the file. The lock is held by every process that inherited it.
    """
    # A process that checks whether a run is alive holds the lock for a moment.
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


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
