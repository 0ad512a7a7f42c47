"""Locks that one process at a time holds, of the kernel or as a lease; free once it has ended.

On a file system the kernel keeps them. In a store, which has no kernel, a lease does
(:mod:`spark_jobs.run_state.lease`). What they protect: the driver of a generation
(:mod:`spark_jobs.run_state.driver_lock`), the table (:mod:`spark_jobs.run_state.table_locks`), and
what extensions name.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from pathlib import Path
from typing import Protocol

from sources.errors import StateError
from sources.storage.documents import make_folder
from sources.storage.folder import FULL, Folder
from spark_jobs.run_state import lease
from spark_jobs.run_state.lease import LAUNCH_TTL_S, Lease

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
    return take_named(folder, f"{name}.lock", f"{name}-lease.json", uuid.uuid4().hex)


def is_taken(folder: Folder, name: str) -> bool:
    """Return whether any process holds the lock of a name that :func:`take_lock` takes.

    Args:
        folder: Folder of what the lock is about.
        name: Name of the lock.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The folder's store does not answer.
    """
    if folder.is_local:
        return is_file_locked(folder.path(f"{name}.lock"))
    seen = lease.look(folder, f"{name}-lease.json")
    return seen is not None and seen.is_valid


def take_named(folder: Folder, file: str, document: str, holder: str) -> Lock | None:
    """Take the lock that a file, or in a store a lease, keeps; None if it is taken.

    Waits for a second at most; in a store up to 12 s more, while an expired lease is watched.

    Args:
        folder: Folder of what the lock is about.
        file: Path of the file in the folder, where that is on a file system.
        document: Path of the lease's document in the folder, where that is in a store.
        holder: Who holds the lease; others of this name may take it over.

    Raises:
        StateError: The folder can't be written; transient if its disk is full.
        UnavailableError: The folder's store does not answer.
    """
    if folder.is_local:
        taken = take_file(folder.path(file))
        return None if taken is None else FileLock(taken)
    held = lease.take(folder, document, holder, is_driven=False, ttl_s=LAUNCH_TTL_S)
    return None if held is None else _LeaseLock(held)


def take_file(path: Path) -> int | None:
    """Lock a file, created with its folder if missing, and return its descriptor; None if taken.

    Tries for a second. The lock is held until all processes that have inherited the descriptor have
    closed it, or ended.

    Raises:
        StateError: It can't be created or opened; transient if its disk is full.
    """
    try:
        file = open_lock(path)
    except OSError as error:
        message = f"The lock {path} can't be taken: {error.strerror}. Nothing was read or written."
        is_full = error.errno in FULL
        hint = (
            f"{'Free space on its disk' if is_full else 'Let this user write it'}, then try again."
        )
        raise StateError(message, hint, transient=is_full, file=str(path)) from error
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


def is_file_locked(path: Path) -> bool:
    """Return whether a process has locked a file; False if there is none.

    Nothing is written; a lock that is free is taken for a moment.
    """
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
