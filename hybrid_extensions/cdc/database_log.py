"""Lag of the connector: bytes of the database's log that it has not read, and how long to wait.

A topic that is read to its end says nothing about changes that the connector has not written to it.
What a connector was sent is known from its replication slot; what it received is written to the
topic within moments, as long as the connector works. MariaDB and MySQL do not tell what they have
sent: there the position counts that the connector keeps in Kafka Connect, once all before it is in
the topics.
"""

from __future__ import annotations

import time

from hybrid_extensions.cdc.databases.kafka_connect import restart_command
from hybrid_extensions.cdc.databases.replication_slot import (
    NEW_SNAPSHOT,
    SlotGone,
    ask_slot,
    gone_state,
)
from hybrid_extensions.cdc.databases.slot import Slot, State
from orchestration.capture.slot_state import describe_unread
from sources.common.times import now_ms
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import HybridError, RunError, UnavailableError

SETTLED_S = 3.0
"""Seconds without a new record in the topic after which all that was received is in it."""
PATIENCE_S = 20.0
"""Seconds that a wait lasts without a connector, or without an answer of the database."""
CONFIRMED_S = 90.0
"""Seconds to wait for a connector's next confirmation, where the role may not see what was sent."""
KEPT_S = 180.0
"""The same for MariaDB and MySQL, where Kafka Connect keeps positions once a minute by default, and
the server tells an idle connector after 48 s that there is nothing new."""


class DatabaseLog:
    """Log of a captured database up to its end at the first look; a wait ends there.

    A look is a call of :meth:`unread`.

    Args:
        options: The declared snapshot, with the slot, or for MariaDB and MySQL the connector.
        server: Identifier of the server whose log was read so far; empty if unknown, so that
            another server is not detected.

    Attributes:
        is_confirmed: Whether the connector has confirmed that the topics hold all of it, by the
            last look; also true where it could not: for a connector of MariaDB or MySQL without
            heartbeats.
    """

    def __init__(self, options: SnapshotOptions, server: str = "") -> None:
        self.is_confirmed = False
        self._server = server
        self._options, self._slot = options, options.log_reader
        self._target: int | None = None
        # What was last confirmed, and when that was first seen.
        self._confirmed: tuple[int, float] | None = None
        self._problem_since: float | None = None

    def unread(self) -> int:
        """Return how many bytes of the log the connector has not received, by asking the database.

        Returns:
            0 once the connector has received all up to the end of the log at the first call; for
            MariaDB and MySQL, once it has confirmed that. 1 while the database does not answer.

        Raises:
            RunError: No connector has read the slot for 20 s, or the slot is missing or lost, or in
                the log of another server; or the connector confirms nothing more.
            UnavailableError: The database has not answered, or refused, for 20 s.
        """
        slot = ask_slot(self._options)
        if isinstance(slot, str):
            self._require_patience(self._unanswered(slot))
            return 1
        if (state := gone_state(slot, self._server)) is not None:
            raise self._gone(state)
        self._target = self._target or slot.log_end
        # Where the end is not known, a connector that does not run confirms nothing.
        self.is_confirmed = slot.confirmed >= self._target and (
            self._target > 0 or slot.state != "idle"
        )
        if self.is_confirmed and slot.received is None:
            return 0
        received = slot.received
        left = max(slot.unread_bytes or 1, 1) if received is None else self._target - received
        if left > 0 and slot.state == "idle":
            self._require_patience(self._idle(left, slot.failure))
            return left
        self._problem_since = None
        if received is None:
            self._require_progress(slot)
        return max(left, 0)

    def describe(self, unread: int) -> str:
        """Describe how much of the log the connector has not read (or confirmed), as a clause.

        Args:
            unread: Number of bytes, as :meth:`unread` returns it.
        """
        return describe_unread(unread, is_confirmation=not self._options.kind.has_slots)

    def _require_patience(self, problem: HybridError) -> None:
        """Raise an error once what it says has been so for a while."""
        now = time.monotonic()
        self._problem_since = self._problem_since or now
        if now - self._problem_since >= PATIENCE_S:
            raise problem

    def _require_progress(self, slot: Slot) -> None:
        """Raise an error once the connector has confirmed nothing more for a while."""
        now = time.monotonic()
        if self._confirmed is None or self._confirmed[0] != slot.confirmed:
            self._confirmed = (slot.confirmed, now)
        has_slots = self._options.kind.has_slots
        if now - self._confirmed[1] < (CONFIRMED_S if has_slots else KEPT_S):
            return
        if not has_slots:
            left = f": {self.describe(slot.unread_bytes)}" if slot.unread_bytes else ""
            message = (
                f"Connector {self._slot} has not confirmed the binary log up to its end, and "
                f"nothing more for {KEPT_S:.0f} s{left}."
            )
            hint = (
                "Look at the connector's log, and whether Kafka Connect keeps positions more "
                "rarely (`offset.flush.interval.ms`); then try again. After a TRUNCATE as the last "
                "statement it confirms that with the next transaction of any table. The live run "
                "continues."
            )
            raise RunError(message, hint, value=self._slot)
        message = (
            f"How much of the database's log the connector of slot `{self._slot}` has not "
            "read is unknown: the role of `snapshot.dsn` may not see it, and the connector has "
            "confirmed nothing newer."
        )
        hint = (
            "Let a superuser run `GRANT pg_read_all_stats TO <role>` in the database, where <role> "
            "is the user in `snapshot.dsn`. Then repeat the command, which waited for the "
            "connector and was broken off. The live run continues."
        )
        raise RunError(message, hint, value=self._slot)

    def _idle(self, left: int, failure: str) -> HybridError:
        who = f"No connector reads slot `{self._slot}`"
        if not self._options.kind.has_slots:
            who = f"Connector {self._slot} does not run"
        url = str(self._options.connector)
        if failure:
            who = f"Connector {url} is FAILED ({failure})"
        message = f"{who}, so the live run can't catch up: {self.describe(left)}."
        start = "Start the connector, or look at why its task failed"
        if failure:
            start = f"Correct the cause, and start it again: `{restart_command(url)}`"
        hint = f"{start}; then try again. The live run continues, and has what the topic holds."
        return RunError(message, hint, value=self._slot)

    def _gone(self, state: State) -> HybridError:
        if state == "moved":
            gone = str(SlotGone(slot=self._slot, at_ms=now_ms(), state=state))
            message = f"{gone[0].upper()}{gone[1:]}."
        elif not self._options.kind.has_slots:
            what = "has lost its" if state == "lost" else "has no"
            message = f"Connector {self._slot} {what} place in the binary log: changes are missing."
        else:
            what = "is lost" if state == "lost" else "does not exist"
            message = f"Replication slot `{self._slot}` {what}: changes are missing."
        return RunError(message, NEW_SNAPSHOT, transient=False, value=self._slot)

    def _unanswered(self, reason: str) -> HybridError:
        kind = self._options.kind
        others = "" if kind.has_slots else "connector, or the "
        message = (
            "Whether the connector has read all of the database's log is unknown: "
            f"{reason.rstrip('.')}."
        )
        hint = (
            f"Start the {others}database, if it does not run; correct what it refuses, such as the "
            f"password of `snapshot.dsn` in the environment variable {kind.password}; then try "
            "again. The live run continues."
        )
        return UnavailableError(message, hint, value=self._slot)
