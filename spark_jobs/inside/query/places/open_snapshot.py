"""Place of a database snapshot that is still read: its chunks, until the table is whole."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import FoundFiles
from sources.planning.files.open_snapshot import OpenSnapshot, whole_in_words
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.place import PlaceStream, SourcePlace
from spark_jobs.inside.query.places.read_from_plan import committed_in_plan
from spark_jobs.inside.readers.files.planned_files import PlannedSource


class OpenSnapshotPlace(SourcePlace):
    """Place of a database snapshot whose chunks are still read while its topic is followed.

    Args:
        context: The pipeline and its state.
        snapshot: The chunks so far.
        planned: Reader of these chunks.
        index: Number of its place in the union, from 0.
    """

    def __init__(
        self,
        context: PipelineContext,
        snapshot: OpenSnapshot,
        planned: PlannedSource,
        *,
        index: int,
    ) -> None:
        super().__init__(context)
        self.folder = snapshot
        self.growing = self
        self._planned = planned
        self._index = index
        self._taken_in = len(snapshot.parts)
        self._is_whole = False

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the rows of the chunks that are not committed yet, and of those that follow.

        Raises:
            InputError: A chunk that is still to be read is missing or was rewritten.
            StateError: The checkpoint is damaged, or the state can't be written.
            UnavailableError: The storage or the state's store does not answer.
        """
        committed_in_plan(self._context, self._index, self._planned)
        self._planned.prepare()
        return PlaceStream(partial(self._planned.stream, spark))

    def take_in(self, arrived: FoundFiles) -> None:
        """Add chunks to the source's Delta log; the running stream reads them next.

        Args:
            arrived: The chunks, whose round is in the state folder already.
        """
        self._planned.extend(arrived)
        self._taken_in += 1

    def settle(self, committed: Any) -> str | None:
        """Record that the table is whole, once the last chunk is written and committed.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.

        Returns:
            A sentence about it, the first time; None before and afterwards.

        Raises:
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        is_planned = self.folder.is_complete and self._taken_in == len(self.folder.parts)
        if self._is_whole or not is_planned:
            return None
        if not offset_log.is_drained(committed, len(self._planned.entries)):
            return None
        self._is_whole = True
        return whole_in_words(self.folder.keep_whole())
