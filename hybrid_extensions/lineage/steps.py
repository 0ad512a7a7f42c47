"""Observer of a pipeline's steps, which sends OpenLineage events for them."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from hybrid_extensions.lineage.declare import Lineage, LineageSection
from orchestration.step_observers import StepObserver, Tell
from sources.common.optional import needs_extra
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

if TYPE_CHECKING:
    from hybrid_extensions.lineage.events import EventSender


def observer(loaded: LoadedPipeline) -> StepObserver | None:
    """Return the observer that sends a pipeline's events; None without declared ``lineage``.

    Its methods raise InputError where OpenLineage's client is not configured, except for the end of
    a live run.
    """
    lineage = loaded.section(LineageSection).lineage
    return None if lineage is None else _Events(loaded, lineage)


class _Events:
    """Sends the events of a pipeline with OpenLineage's client."""

    def __init__(self, loaded: LoadedPipeline, lineage: Lineage) -> None:
        self._loaded, self._lineage = loaded, lineage

    def reported(self, step: str, source: str | None, tell: Tell) -> AbstractContextManager[None]:
        return self._reporter(tell).run(step, source)

    def live_run_started(self, source: str, launch_id: str, tell: Tell) -> None:
        self._reporter(tell).live_run_started(source, launch_id)

    def live_run_ended(self, source: str, launch_id: str) -> None:
        # A client that is not set up refuses the next start.
        with suppress(InputError):
            self._reporter(lambda _: None).live_run_ended(source, launch_id)

    def _reporter(self, tell: Tell) -> EventSender:
        with needs_extra("lineage", "`lineage`"):
            from hybrid_extensions.lineage.events import EventSender  # noqa: PLC0415 - few need it
        return EventSender(self._loaded, self._lineage, tell)
