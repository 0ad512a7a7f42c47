"""Capture as the core's chain and supervision call it (interface `Capture`): copy, wait, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.compared.kept_compare import KeptCompare, read_compare
from hybrid_extensions.cdc.connector_wait import ConnectorWait
from hybrid_extensions.cdc.databases.altered_table import read_table_watch
from hybrid_extensions.cdc.look import look
from orchestration.capture.interface import Capture
from orchestration.capture.look import LOOK_EVERY_MS, CaptureLook
from orchestration.capture.snapshots import TakenSnapshot
from orchestration.capture.wait import CaptureWait
from sources.common.positions import Offsets
from sources.common.state_document import Part
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import WholeTable
from sources.state.generation import Generation


class _DatabaseCapture(Capture):
    """Implementation of the core's interface :class:`Capture`, which documents the methods."""

    def take(
        self, loaded: LoadedPipeline, report: Callable[[str], None], *, first_only: bool = False
    ) -> list[TakenSnapshot]:
        return snapshots.take(loaded, report, first_only=first_only)

    def take_rest(
        self,
        context: PipelineContext,
        report: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> WholeTable | None:
        return snapshots.take_rest(context, report, tell)

    def wait(self, context: PipelineContext) -> CaptureWait:
        return ConnectorWait(context)

    def look(
        self,
        loaded: LoadedPipeline,
        generation: Generation,
        looked_ms: int,
        *,
        older_ms: int = LOOK_EVERY_MS,
        committed: Offsets | None = None,
    ) -> CaptureLook:
        return look(loaded, generation, looked_ms, older_ms=older_ms, committed=committed)

    def narrowed(self, generation: Generation) -> Sequence[Part]:
        watch = read_table_watch(generation)
        return [] if watch is None else watch.narrowed

    def compared(self, generation: Generation) -> KeptCompare | None:
        return read_compare(generation)

    def asset(self, loaded: LoadedPipeline, step: Any, before: Sequence[Any]) -> Any:
        # Whoever only runs a pipeline may have no Dagster.
        from hybrid_extensions.cdc.dagster import snapshot_asset

        return snapshot_asset(loaded, step, before)


CAPTURE = _DatabaseCapture()
