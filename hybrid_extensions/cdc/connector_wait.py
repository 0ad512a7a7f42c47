"""When a drain may end: whether the connector has written all of the log to the topic."""

from __future__ import annotations

import time

from hybrid_extensions.cdc.database_log import SETTLED_S, DatabaseLog
from hybrid_extensions.cdc.databases.replication_slot import watched_slots
from hybrid_extensions.cdc.databases.table_watch import require_unaltered_table
from orchestration.capture.wait import CaptureWait
from sources.planning.context import PipelineContext
from sources.planning.plan import log_server
from spark_jobs.run_state.heartbeat import Heartbeat


class ConnectorWait(CaptureWait):
    """Wait for the connector to write a captured table's changes to the topic.

    The connector is behind until it has confirmed that the topic holds the database's log up to its
    end at the first look; or until it has received that, and no record has come for
    :data:`~hybrid_extensions.cdc.database_log.SETTLED_S`, as it confirms nothing while only other
    tables change. Never behind where no source declares a ``snapshot``.

    Args:
        context: The pipeline and its state.

    Attributes:
        text: Where the rows that are waited for are, as the end of a sentence, after each look;
            empty before the first one.

    Raises:
        StateError: The plan is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        self._context, self._is_looked_at = context, False
        # One for each shard.
        self._logs = [
            DatabaseLog(options, log_server(context.generation, source or None))
            for options, _, source in watched_slots(context.loaded)
        ]
        self._quiet: tuple[object, float] | None = None
        self.text = ""

    def is_behind(self, waiting: int, beat: Heartbeat | None) -> bool:
        """Ask the databases once, and return whether changes may be missing from the topic.

        False at once without a connector to wait for. The first call that returns False also
        inspects the captured table and records the result.

        Args:
            waiting: Number of records in the topic that the live run has not read.
            beat: The live run's latest heartbeat; None before its first one.

        Raises:
            InputError: The table was altered in a way that no change reports.
            StateError: The state can't be read or written.
            RunError: As :meth:`DatabaseLog.unread`.
            UnavailableError: The same; or the state's store does not answer.
        """
        is_behind = self._is_behind(waiting, beat)
        if not is_behind and not self._is_looked_at:
            # Statements of the log that was waited for are reported by now.
            committed = None if beat is None else beat.offsets
            require_unaltered_table(self._context.loaded, self._context.generation, committed)
            self._is_looked_at = True
        return is_behind

    def _is_behind(self, waiting: int, beat: Heartbeat | None) -> bool:
        if not self._logs:
            return False
        unread = sum(log.unread() for log in self._logs)
        self.text = (
            f" in the topic, and {self._logs[0].describe(unread)}" if unread else " in the topic"
        )
        if all(log.is_confirmed for log in self._logs):
            return False
        seen = (waiting, None if beat is None else beat.offsets)
        if unread or waiting or self._quiet is None or self._quiet[0] != seen:
            self._quiet = (seen, time.monotonic())
            return True
        return time.monotonic() - self._quiet[1] < SETTLED_S
