"""One look of the supervision at connectors and captured table; a silent database is asked once."""

from __future__ import annotations

import contextlib

from hybrid_extensions.cdc.connector_restart import restart_if_due
from hybrid_extensions.cdc.databases.altered_table import (
    TableWatch,
    keep_table_watch,
    read_table_watch,
)
from hybrid_extensions.cdc.databases.table_watch import inspect_table
from hybrid_extensions.cdc.silence_watch import SilenceLook, keep_silence, observe_silence
from hybrid_extensions.cdc.slot_watch import SlotLook, keep_slot, observe_slot
from orchestration.capture.look import CaptureLook
from sources.common.positions import Offsets
from sources.config.loader import LoadedPipeline
from sources.errors import StateError, UnavailableError
from sources.planning.context import PipelineContext
from sources.state.generation import Generation


class DatabaseLook(CaptureLook):
    """Result of one look at connectors and captured table.

    Args:
        slot: What was seen of the connector; None if none is declared.
        silence: What was seen of databases without a declared connector.
        table: What was seen of the captured table; None if there is none.

    Attributes:
        slot: What the verdict on the live run needs of the connector; None if none is declared.
        altered: Error that stops the run of an altered table, as a report; None if it is unaltered.
        doubt: Why an alteration can't be ruled out; None if it can, or no table is captured.
    """

    def __init__(
        self, slot: SlotLook | None, silence: SilenceLook, table: TableWatch | None
    ) -> None:
        self._slot, self._silence, self._table = slot, silence, table
        self.slot = None if slot is None else slot.seen
        self.silent = silence.seen
        altered = None if table is None else table.altered
        self.altered = None if altered is None else altered.error().report()
        self.doubt = None if table is None else table.doubt

    def keep(self, generation: Generation) -> None:
        """Write what was seen to the state, for the next look; a failure to write is ignored.

        A connector's slot that is gone is recorded for good.
        """
        keep_slot(generation, self._slot)
        keep_silence(generation, self._silence)
        if self._table is not None:
            with contextlib.suppress(StateError, UnavailableError):
                keep_table_watch(generation, self._table)

    def restart_connectors(
        self, loaded: LoadedPipeline, generation: Generation, now_ms: int
    ) -> None:
        """Restart connectors that have failed, where that is declared and due.

        Does nothing without a connector. Raises what
        :func:`~hybrid_extensions.cdc.connector_restart.restart_if_due` does.
        """
        if self._slot is not None:
            restart_if_due(loaded, generation, self._slot, now_ms)


def look(
    loaded: LoadedPipeline,
    generation: Generation,
    looked_ms: int,
    *,
    older_ms: int,
    committed: Offsets | None,
) -> DatabaseLook:
    """Ask the databases for the connectors and the captured table; writes nothing.

    Where a database does not answer about the connector, it is not asked about the table again: the
    last recorded inspection counts. The arguments are those of
    :meth:`orchestration.capture.interface.Capture.look`.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    slot = observe_slot(loaded, generation, looked_ms)
    silence = observe_silence(loaded, generation, looked_ms)
    # A database that does not answer is waited for once.
    if silence.seen is not None or (slot is not None and slot.seen.unknown is not None):
        return DatabaseLook(slot, silence, read_table_watch(generation))
    captured = PipelineContext(loaded, generation).loaded
    table = inspect_table(captured, generation, older_ms=older_ms, committed=committed)
    return DatabaseLook(slot, silence, table)
