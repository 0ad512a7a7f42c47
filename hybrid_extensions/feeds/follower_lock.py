"""Lock of a feed's folder in the state, which one follower of the feed at a time can hold."""

from __future__ import annotations

from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import Lock, take_lock


def require_lock(folder: Folder, name: str, message: str) -> Lock:
    """Take a lock of a feed; the caller releases it.

    Args:
        folder: Folder of the feed in the state.
        name: Name of the lock.
        message: What another follower does that has it, as a sentence.

    Raises:
        StateError: Another follower has the lock (transient), or the state can't be written.
        UnavailableError: The state's store does not answer.
    """
    lock = take_lock(folder, name)
    if lock is None:
        hint = (
            "Run one follower of a feed at a time: end the other one on the machine where it runs, "
            "or wait until it ends. This one has delivered nothing."
        )
        raise StateError(message, hint, transient=True, file=folder.url)
    return lock
