"""Place of a bounded file source: its planned files, and the rounds that follow them."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import RateLimit
from sources.planning.context import PipelineContext
from sources.planning.files.rounds import History, Round, next_round
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.place import PlaceStream, Reached, SourcePlace
from spark_jobs.inside.query.places.read_from_plan import (
    committed_in_plan,
    direct_files,
    planned_interval_ms,
    reached_in_plan,
)
from spark_jobs.inside.readers.files.planned_files import PlannedSource


class PlannedFilesPlace(SourcePlace):
    """Place of a bounded file source that is being read, or was read.

    Args:
        context: The pipeline and its state.
        source: The declaration.
        history: The files planned for it, rounds (further listings of its folder) included.
        planned: Reader of these files.
        index: Number of its place in the union, from 0.
        rate: Its rate limit if it is read by this run; None if it was read to its end before.

    Attributes:
        planned: Reader of the files, as given.
    """

    def __init__(
        self,
        context: PipelineContext,
        source: FileSource,
        history: History,
        planned: PlannedSource,
        *,
        index: int,
        rate: RateLimit | None,
    ) -> None:
        super().__init__(context)
        self._source = source
        self.planned = planned
        self.files = planned if planned.is_read_as_it_is else None
        self._index = index
        self._rate = rate
        self.end = history.end
        self.out_of_orderness_ms = history.disorder_ms
        self.is_by_arrival = source.arrival is not None

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the rows of the planned files that are not committed yet, in planned order.

        None are left of a source that was read to its end.

        Raises:
            InputError: A planned file that is still to be read is missing or was rewritten, or
                ``select`` does not fit.
            StateError: The checkpoint is damaged, or the state can't be written.
            UnavailableError: The storage or the state's store does not answer.
        """
        interval = 0
        if self._rate is not None:
            committed = committed_in_plan(self._context, self._index, self.planned)
            # A drained source has nothing to wait for, but a last micro-batch without data.
            if not self.is_drained(committed):
                interval = planned_interval_ms(self._rate, self.planned)
        self.planned.prepare()
        if self._rate is None:
            self.planned.complete(spark)
        direct = direct_files(spark, self.planned)
        return PlaceStream(partial(self.planned.stream, spark), interval, direct=direct)

    def is_drained(self, committed: Any) -> bool:
        """Return whether every planned split of the source was read and committed.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return offset_log.is_drained(committed, len(self.planned.entries))

    def reached(self, committed: Any) -> Reached:
        """Return how far the source was read: splits, rows and highest event time.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return reached_in_plan(self.planned, committed)

    def next_round(self) -> Round | None:
        """Plan another round, a further listing of the folder, once all planned files are read.

        Returns:
            What the round found, to be read next; None if the following topic needs none, or if no
            files with rows have arrived.

        Raises:
            InputError: A new file can't be read, or has other columns.
            SeamError: The hand-over could not be made for another reason.
            StateError: The state is damaged, or can't be written.
            UnavailableError: A broker or storage does not answer.
            GapError: The hand-over could not be made, and no file has arrived that may help.
        """
        return next_round(self._context, self._source)
