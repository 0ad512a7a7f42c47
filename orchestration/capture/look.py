"""What one look sees of a capture: the slot or connector, a silent database, an altered table."""

from __future__ import annotations

from abc import ABC, abstractmethod

from orchestration.capture.silent_database import SilentDatabase
from orchestration.capture.slot_state import SlotSeen
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport
from sources.state.generation import Generation

LOOK_EVERY_MS = 60_000
"""Milliseconds after which a look that is repeated every few seconds asks the database again."""


class CaptureLook(ABC):
    """What one look sees of a pipeline's capture: connectors, and the captured table.

    Attributes:
        slot: The replication slot that the changes come through, of several the worst one; None if
            none is declared.
        silent: The database that has not answered for longest, where neither slot nor connector is
            declared; None if there is none.
        altered: What was done to the captured table that no change reports, so that its next launch
            is refused; None if nothing is known.
        doubt: Why it is not known whether something was done to it; None if that is known, or there
            is no captured table.
    """

    slot: SlotSeen | None
    silent: SilentDatabase | None
    altered: ErrorReport | None
    doubt: str | None

    @abstractmethod
    def keep(self, generation: Generation) -> None:
        """Write what was seen to the state, for the next look.

        A state that can't be written, or whose store does not answer, is no error: then the next
        look starts without it.
        """

    @abstractmethod
    def restart_connectors(
        self, loaded: LoadedPipeline, generation: Generation, now_ms: int
    ) -> None:
        """Restart connectors that have failed, where that is declared and due.

        Args:
            loaded: The pipeline.
            generation: State of the generation.
            now_ms: Time of the look, in ms since 1970.

        Raises:
            StateError: The state can't be read or written.
            UnavailableError: The state's store does not answer.
        """
