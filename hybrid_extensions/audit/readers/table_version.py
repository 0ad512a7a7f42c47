"""At which version the audit reads a Delta source: declared, found by the pipeline, or newest."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybrid_extensions.audit.readers.local_copies import Copies
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.hybrid import Boundedness
from sources.planning.files.discovery import found_so_far
from sources.planning.files.file_plan import FoundFiles
from sources.planning.files.passed_range import position_after
from sources.planning.plan import find_plan


class TableVersions:
    """Delta tables of a pipeline's sources, each at the version that the audit reads.

    That is the declared one; else the one up to which the pipeline has found rows, by the plan or
    the last discovery; the newest one where neither is known. The table's own library says which
    rows a version has.

    Args:
        loaded: The pipeline.
        copies: Local copies of tables in a store.
    """

    def __init__(self, loaded: LoadedPipeline, copies: Copies) -> None:
        self._loaded = loaded
        self._copies = copies

    def open(self, source: FileSource) -> DeltaTable:
        """Open the table of a source at the version that is read.

        Raises:
            InputError: The table can't be opened, or a store refuses.
            StateError: The state is damaged.
            UnavailableError: A store does not answer, also that of the state.
        """
        version = source.version if source.version is not None else self._found(source)
        return self._opened(source, version)

    def notes(self, source: FileSource) -> list[str]:
        """Return a sentence about the version at which a table that is followed is read.

        Empty for other sources, and before rows of the table were found.

        Raises:
            InputError: The table can't be opened, or a store refuses.
            StateError: The state is damaged.
            UnavailableError: A store does not answer.
        """
        if source.format != "delta" or source.boundedness is Boundedness.BOUNDED:
            return []
        if (version := self._found(source)) is None:
            return []
        newest = self._opened(source).version()
        return [
            f"Source `{source.name}`: rows of its table at version {version:,}, up to which the "
            f"pipeline has found what is appended; the newest one is {newest:,}."
        ]

    def _found(self, source: FileSource) -> int | None:
        """Return the version up to which the pipeline has found rows; None if it is not known."""
        generation = self._loaded.open_generation(create=False)
        plan = None if generation is None else find_plan(generation)
        if generation is None or plan is None:
            return None
        parts: Sequence[FoundFiles] = [part for part in plan.files if part.source == source.name]
        if plan.folder is not None and plan.folder.source == source.name:
            parts = found_so_far(generation, plan.folder)
        position = position_after(generation, parts) if parts else None
        return None if position is None else position.version

    def _opened(self, source: FileSource, version: int | None = None) -> DeltaTable:
        """Open the table of a source at a version, or at the newest one for None."""
        # A table in a store is copied first.
        place = self._loaded.locate(self._copies.local_pattern(source.patterns[0]))
        try:
            return DeltaTable(place, version=version)
        except (DeltaError, OSError) as error:
            which = "" if version is None else f" at version {version:,}"
            message = (
                f"Source `{source.name}` can't be read by the audit: its Delta table{which} can't "
                f"be opened: {str(error).strip().removesuffix('.')}."
            )
            hint = (
                "Correct `path` and `version` of the source, or restore the table's `_delta_log`. "
                "If its log is no longer kept that far back, begin a new generation: `hybrid "
                "generation new P`."
            )
            raise InputError(message, hint, source=source.name, table=source.patterns[0]) from None
