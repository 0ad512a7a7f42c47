"""Interface of the capture of database tables: snapshots, wait for the log, looks, comparisons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from orchestration.capture.look import LOOK_EVERY_MS, CaptureLook
from orchestration.capture.snapshots import TakenSnapshot
from orchestration.capture.wait import CaptureWait
from sources.common.positions import Offsets
from sources.common.state_document import Part
from sources.config.loader import LoadedPipeline
from sources.extensions import contributions, none_adds
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import WholeTable
from sources.state.generation import Generation


class KeptComparison(Part):
    """What comparisons of a target with the database's table have found, as the state keeps it."""

    @property
    def is_wrong(self) -> bool:
        """Whether rows are known to differ, and were not repaired since."""
        raise NotImplementedError

    @property
    def is_answered(self) -> bool:
        """Whether the whole table was compared, and not repaired since, and no try is postponed."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """Result for people, in a sentence or two."""
        raise NotImplementedError


class Capture(ABC):
    """Interface of what copies and follows database tables; its extension implements it."""

    @abstractmethod
    def take(
        self, loaded: LoadedPipeline, report: Callable[[str], None], *, first_only: bool = False
    ) -> list[TakenSnapshot]:
        """Copy all declared database tables into files; chunks that were copied before are kept.

        Only chunks that are missing are read; a complete snapshot is returned as it is.

        Args:
            loaded: The pipeline.
            report: Called with a line for each chunk that is copied.
            first_only: Copy one chunk of a table whose changes are followed while the others are
                read (``follow: while_reading``).

        Returns:
            The snapshot of each table, in the order of the sources.

        Raises:
            InputError: No source declares a `snapshot`, or the database does not meet the
                requirements of capturing changes.
            StateError: Another process copies the same table into the same folder (transient).
            RunError: The copy was interrupted; the chunks that are complete are kept.
            UnavailableError: The database or a store does not answer.
        """

    @abstractmethod
    def take_rest(
        self,
        context: PipelineContext,
        report: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> WholeTable | None:
        """Copy the chunks of an open snapshot that are missing, and wait until the table is whole.

        The live run merges each chunk together with the changes. Safe to repeat: chunks that are
        written are kept, and a table that is whole is left as it is.

        Args:
            context: The pipeline and its state.
            report: Called with a line for each chunk that is copied.
            tell: Called with a sentence when all are copied, and the live run has to merge the
                rest.

        Returns:
            The mark that the table is whole; None if the snapshot was complete when it was planned.

        Raises:
            StateError: Another process copies the same chunks (transient).
            InputError: The database does not meet the requirements of capturing changes.
            RunError: The copy was interrupted, or the live run has ended; chunks that are complete
                are kept.
            UnavailableError: The database or a store does not answer.
        """

    @abstractmethod
    def wait(self, context: PipelineContext) -> CaptureWait:
        """Return a wait for what the captured databases' logs hold at its first look.

        Called when a run is drained or waits for its input. Nothing is asked yet.
        """

    @abstractmethod
    def look(
        self,
        loaded: LoadedPipeline,
        generation: Generation,
        looked_ms: int,
        *,
        older_ms: int = LOOK_EVERY_MS,
        committed: Offsets | None = None,
    ) -> CaptureLook:
        """Ask the databases about connectors and the captured table; write nothing.

        A database that does not answer is no error: the result says so.

        Args:
            loaded: The pipeline.
            generation: State of the generation, which has what earlier looks saw.
            looked_ms: The present, in ms since 1970.
            older_ms: The table is examined if it was last examined longer ago than this, in ms.
            committed: Offsets up to which the target has the topic of changes; None if not known.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """

    @abstractmethod
    def narrowed(self, generation: Generation) -> Sequence[Part]:
        """Return the columns of the captured table that were narrowed, which is ignored.

        Called for `hybrid status`; empty if there are none. Each has its names in the document of
        the status, and a sentence as its text.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """

    @abstractmethod
    def compared(self, generation: Generation) -> KeptComparison | None:
        """Return what comparisons with the database have found; None if there was none.

        Called for `hybrid status`.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """

    @abstractmethod
    def asset(self, loaded: LoadedPipeline, step: Any, before: Sequence[Any]) -> Any:
        """Return the definition of Dagster's asset of a step that copies database tables.

        Called while Dagster loads a pipeline that captures tables.

        Args:
            loaded: The pipeline.
            step: The step, a :class:`orchestration.chain.SnapshotStep` or ``RestOfSnapshotStep``.
            before: Keys of the assets of the steps before it.
        """


def installed_capture() -> Capture | None:
    """Return the capture of the first installed extension that has one; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("capture"), None)


def require_capture() -> Capture:
    """Return the capture of the first installed extension that has one.

    Raises:
        InputError: No installed extension captures tables.
    """
    if (found := installed_capture()) is None:
        raise none_adds("captures database tables", "begin with files of it", field="snapshot")
    return found


def capture_wait(context: PipelineContext) -> CaptureWait:
    """Return a wait for what the captured databases' logs hold.

    It waits for nothing if no installed extension captures tables.

    Raises:
        InputError: An extension can't be loaded.
    """
    found = installed_capture()
    return CaptureWait() if found is None else found.wait(context)
