"""The log of a captured database: how much of it the connector has not read yet.

A topic that is read to its end says nothing about changes that the connector has not written to it.
What a connector was sent is known from its replication slot; what it received is written to the
topic within moments, as long as the connector works.
"""

from __future__ import annotations

import time

from orchestration.display import size
from sources.config.snapshot import SnapshotOptions
from sources.databases.replication_slot import NEW_SNAPSHOT, Slot, ask_slot
from sources.errors import HybridError, RunError, UnavailableError

SETTLED_S = 3.0
"""Seconds without a new record in the topic after which all that was received is in it."""
_PATIENCE_S = 20.0
"""Seconds that a wait lasts without a connector, or without an answer of the database."""
_CONFIRMED_S = 90.0
"""Seconds to wait for a connector's own confirmation, where the role may not see what was sent."""


def describe_unread(unread: float) -> str:
    """Return how much of the log waits, such as ``58 MB in the database, not read by …``."""
    return f"{size(unread)} in the database, not read by the connector"


class DatabaseLog:
    """Log of a captured database up to its end at the first look, which a wait is to reach.

    Args:
        options: The declared snapshot, with the slot.

    Attributes:
        is_confirmed: Whether the connector has confirmed that the topics hold all of it.
    """

    def __init__(self, options: SnapshotOptions) -> None:
        self.is_confirmed = False
        self._options, self._slot = options, options.log_reader
        self._target: int | None = None
        self._began: float | None = None
        self._problem_since: float | None = None

    def unread(self) -> int:
        """Ask the database how many bytes of the log the connector has not received.

        Returns:
            0 once the connector has received all up to the end of the log at the first call.

        Raises:
            RunError: No connector has read the slot for 20 s, or the slot is missing or lost.
            UnavailableError: The database has not answered, or refused, for 20 s.
        """
        slot = ask_slot(self._options)
        if isinstance(slot, str):
            self._require_patience(self._unanswered(slot))
            return 1
        if slot.state in ("missing", "lost"):
            raise self._gone(slot)
        self._target = self._target or slot.log_end
        received = slot.received
        self.is_confirmed = slot.confirmed >= self._target
        if received is None:
            return self._unseen(slot)
        left = max(self._target - received, 0)
        if left and slot.state == "idle":
            self._require_patience(self._idle(left))
        else:
            self._problem_since = None
        return left

    def _require_patience(self, problem: HybridError) -> None:
        """Raise an error once what it says has been so for a while."""
        now = time.monotonic()
        self._problem_since = self._problem_since or now
        if now - self._problem_since >= _PATIENCE_S:
            raise problem

    def _unseen(self, slot: Slot) -> int:
        """Wait for the connector's own confirmation, as the role may not see what it was sent."""
        if self.is_confirmed:
            return 0
        now = time.monotonic()
        self._began = self._began or now
        if now - self._began < _CONFIRMED_S:
            return 1
        message = (
            f"How much of the database's log the connector of slot `{self._slot}` has not "
            "read is unknown: the role of `snapshot.dsn` may not see it, and the connector has "
            "confirmed nothing newer."
        )
        hint = (
            "Run `GRANT pg_read_all_stats TO <role>` in the database with the role of "
            "`snapshot.dsn`, then repeat the command. The live run continues."
        )
        raise RunError(message, hint, value=self._slot)

    def _idle(self, left: int) -> HybridError:
        message = (
            f"No connector reads slot `{self._slot}`, so the live run can't catch up: "
            f"{describe_unread(left)}."
        )
        hint = (
            "Start the connector, or look at why its task failed; then repeat the command. The "
            "live run continues, and has what the topic holds."
        )
        return RunError(message, hint, value=self._slot)

    def _gone(self, slot: Slot) -> HybridError:
        what = "is lost" if slot.state == "lost" else "does not exist"
        message = f"Replication slot `{self._slot}` {what}: changes are missing."
        return RunError(message, NEW_SNAPSHOT, transient=False, value=self._slot)

    def _unanswered(self, reason: str) -> HybridError:
        message = (
            "Whether the connector has read all of the database's log is unknown, as the database "
            f"does not say: {reason.rstrip('.')}."
        )
        hint = (
            "Start the database, or set the environment variable PGPASSWORD to the password of "
            "`snapshot.dsn`; then repeat the command. The live run continues."
        )
        return UnavailableError(message, hint, value=self._slot)
