"""Place of a folder that keeps growing: its pace, and when its query has to be built again."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sources.config.source.rate_limit import RateLimit
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.file_plan import FoundFiles
from spark_jobs.inside.query.places.place import PlaceStream, Reached, SourcePlace
from spark_jobs.inside.query.places.read_from_plan import (
    committed_in_plan,
    direct_files,
    planned_interval_ms,
    reached_in_plan,
)
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from spark_jobs.table.ownership.refusals import documents_missing

# How often Delta's source looks for discovered files in a folder's log.
_LOOK_MS = 500


class GrowingFolderPlace(SourcePlace):
    """Place of a folder that keeps growing; its source is the last of the chain.

    Args:
        context: The pipeline and its state.
        folder: The files found in the folder so far.
        planned: Reader of these files.
        index: Number of its place in the union, from 0.
        rate: Its rate limit.
    """

    def __init__(
        self,
        context: PipelineContext,
        folder: GrowingFolder,
        planned: PlannedSource,
        *,
        index: int,
        rate: RateLimit,
    ) -> None:
        super().__init__(context)
        self.folder = folder
        self.growing = self
        self._planned = planned
        self.files = planned if planned.is_read_as_it_is else None
        self._index = index
        self._rate = rate

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the files' rows as an endless stream, in the order of their discovery.

        Files that arrive later are added by :meth:`take_in`.

        Raises:
            InputError: A file found that is still to be read is missing or was rewritten, or
                ``select`` does not fit.
            StateError: The checkpoint or the state is damaged, or the state can't be written.
            UnavailableError: The storage or the state's store does not answer.
        """
        committed = committed_in_plan(self._context, self._index, self._planned)
        if committed and int(committed["reservoirVersion"]) > len(self._planned.entries):
            first = f"discoveries/{self.folder.parts[0].source}-{len(self.folder.parts)}.json"
            raise documents_missing(self._context.generation, [first])
        self._planned.prepare()
        direct = direct_files(spark, self._planned)
        return PlaceStream(partial(self._planned.stream, spark), self._interval_ms(), direct=direct)

    def reached(self, committed: Any) -> Reached:
        """Return how far the files found so far were read: splits, rows and highest event time.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return reached_in_plan(self._planned, committed)

    def take_in(self, arrived: FoundFiles) -> None:
        """Add discovered files to the source's Delta log; the running stream reads them next.

        Args:
            arrived: The files, whose discovery is in the state folder already.
        """
        self._planned.extend(arrived)

    def settle(self, _committed: Any) -> str | None:
        """Return None: files may always arrive.

        Args:
            _committed: Not looked at.
        """
        return None

    def is_outdated(self, stream: PlaceStream, _committed: Any) -> bool:
        """Return whether larger files have arrived, so that the rate limit needs another interval.

        The query then has to be built again.
        """
        return self._interval_ms() != stream.interval_ms

    def _interval_ms(self) -> int:
        return max(planned_interval_ms(self._rate, self._planned), _LOOK_MS)
