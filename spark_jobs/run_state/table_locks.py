"""Locks on a pipeline's table: for a promotion or replaced range, and for each merge's turn.

The *switch lock* is held while the table is changed other than by a run: another generation is made
to serve, or a range is replaced. Replacements of ranges take turns by the *range lock*. The lock of
a *table's turn*, on a file system only, is held for each merge into the table, and for each commit
that would make a merge fail.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import Lock, is_taken, open_lock, take_lock

_TABLE = "run/table.lock"
_SWITCH = "switch"


def take_switch_lock(home: Folder) -> Lock | None:
    """Take the lock under which anything but a run changes the table; None if it is taken.

    Such as a promotion, or the replacement of a range.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
        UnavailableError: The store of the state does not answer.
    """
    return take_lock(home, _SWITCH)


def take_range_lock(home: Folder) -> Lock | None:
    """Take the lock by which replacements of ranges exclude each other; None if it is taken.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: The state folder can't be written; transient if its disk is full.
        UnavailableError: The store of the state does not answer.
    """
    return take_lock(home, "range")


def is_switching(home: Folder) -> bool:
    """Return whether a process holds the switch lock, as during a promotion.

    Args:
        home: The pipeline's folder in the state folder.

    Raises:
        StateError: Its lease is damaged.
        UnavailableError: The state's store does not answer.
    """
    return is_taken(home, _SWITCH)


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
