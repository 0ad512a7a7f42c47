"""Which micro-batches of history become copies of files: only if no file of it needs rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hybrid_extensions.copied_files.copyable_sources import why_none
from hybrid_extensions.copied_files.judged_files import JudgedFile, judge_files
from hybrid_extensions.copied_files.spark.sink import CopyingSink
from sources.config.source.file_source import FileSource
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.planned_files import PlannedFilesPlace
from spark_jobs.inside.query.places.read_from_plan import entries_of
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.target_guard import TargetGuard


class CopiedHistory:
    """Judge of which micro-batches of history become copies of files instead of written rows.

    The sink asks it for each micro-batch of a bounded run with ``sink.copy_files``.

    Args:
        query: Declaration of the query.
        planned: Reader of the source that the run reads.

    Attributes:
        columns: Columns that the files contain, without partition columns.
    """

    def __init__(self, query: QueryDeclaration, planned: PlannedSource) -> None:
        self._query = query
        self._planned = planned
        self.columns = pa.schema(
            [field for field in planned.read if field.name not in planned.partitions]
        )

    def files(self, batch_id: int) -> Sequence[JudgedFile] | None:
        """Return the files of a micro-batch if all can be copied into the target.

        None if one has to be rewritten, or the micro-batch reads another source, too.

        Args:
            batch_id: Number of the micro-batch, which the checkpoint has to contain.

        Raises:
            InputError: A file can't be read.
            StateError: The checkpoint's file of the micro-batch is missing.
        """
        for place in range(len(self._query.places)):
            before, after = self._offsets(batch_id, place)
            if place != self._query.index and before != after:
                return None
        source, pipeline = self._query.source, self._query.context.pipeline
        assert isinstance(source, FileSource)
        judged = [
            *judge_files(
                source,
                pipeline.event_time.column,
                self._planned.splits(*self._entries(batch_id)),
                self._planned.read,
                self._planned.partitions,
                pipeline.stores,
            )
        ]
        return None if any(file.why is not None for file in judged) else judged

    def require_unchanged(self, batch_id: int) -> None:
        """Refuse files of a micro-batch that differ from what was planned.

        Called once they are copied, before the commit: so the copies hold what was planned.

        Args:
            batch_id: Number of the micro-batch, which the checkpoint has to contain.

        Raises:
            InputError: A planned file is missing or was rewritten.
            StateError: The checkpoint's file of the micro-batch is missing.
        """
        self._planned.require_unchanged(*self._entries(batch_id))

    def _entries(self, batch_id: int) -> tuple[int, int]:
        """Return the first entry of the plan's log in a micro-batch, and the one after the last."""
        query = self._query
        found = entries_of(query.context, query.index, self._planned, batch_id)
        return found.start, found.stop

    def _offsets(self, batch_id: int, place: int) -> tuple[Any, Any]:
        """Return the offsets of a source between which a micro-batch reads it."""
        checkpoint = self._query.generation.checkpoint
        before = offset_log.offset_of(checkpoint, batch_id - 1, place) if batch_id else None
        return before, offset_log.offset_of(checkpoint, batch_id, place)


def copying_sink(
    query: QueryDeclaration, target: Folder, guard: TargetGuard, positions: CommitPositions
) -> CopyingSink | None:
    """Return the sink that copies files of history into the target; None if none may be copied.

    None without ``sink.copy_files``, for a topic, or where the plan allows no copies.
    """
    history = _copied_history(query)
    if history is None:
        return None
    return CopyingSink(target, query.generation, history, guard, positions)


def _copied_history(query: QueryDeclaration) -> CopiedHistory | None:
    """Return the history of a bounded run if its files may be copied into the target.

    None without ``sink.copy_files``, for a topic, or if rows of its files have to be changed.
    """
    loaded, place, source = query.context.loaded, query.place, query.source
    if not (
        loaded.pipeline.sink.copy_files
        and isinstance(place, PlannedFilesPlace)
        and isinstance(source, FileSource)
    ):
        return None
    part = query.plan.files_of(source.name)
    # As planned: tasks that parse the files may write the rows past Spark.
    read_as = source if part.parsed is None else source.parsed()
    if why_none(loaded, read_as, part.partitions, part.mapping) is not None:
        return None
    return CopiedHistory(query, place.planned)
