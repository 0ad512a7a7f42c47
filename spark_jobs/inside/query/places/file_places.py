"""Places of file sources: planned files, and a folder that keeps growing."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import RateLimit, interval_ms
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.file_plan import FoundFiles
from sources.planning.files.open_snapshot import OpenSnapshot, whole_in_words
from sources.planning.files.rounds import History, Round, next_round
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.history import Planned
from spark_jobs.inside.query.places.place import DirectStream, PlaceStream, Reached, SourcePlace
from spark_jobs.inside.readers.files.planned_files import PlannedSource

# How often Delta's source looks for discovered files in a folder's log.
_LOOK_MS = 500


def planned_interval_ms(rate: RateLimit, planned: Planned) -> int:
    """Return the ms between the starts of two micro-batches by which a plan keeps a rate limit.

    0 without a limit. Computed for the largest micro-batch, so that no other one exceeds it.
    """
    return 0 if rate == RateLimit() else interval_ms(rate, planned.largest)


def reached_in_plan(planned: Planned, committed: Any) -> Reached:
    """Return how far a planned source was read: splits, rows and highest event time.

    Args:
        planned: The source.
        committed: Spark's offset of the source, decoded from JSON; None if it was never read.
    """
    entries = offset_log.position_in_plan(committed, planned.entries)
    splits, rows, event_time_ms = planned.reached(entries)
    return Reached(splits=splits, rows=rows, event_time_ms=event_time_ms)


def direct_files(spark: SparkSession, planned: PlannedSource) -> DirectStream | None:
    """Return the stream of planned files whose reading tasks write the rows themselves.

    None if Spark has to see the rows.
    """
    return DirectStream(partial(planned.written, spark)) if planned.can_be_written else None


def entries_of(context: PipelineContext, index: int, planned: Planned, batch: int) -> range:
    """Return the numbers of the entries of a plan's log that a micro-batch reads.

    Args:
        context: The pipeline and its state.
        index: Number of the source's place in the union, from 0.
        planned: Reader of the source.
        batch: Number of the micro-batch, which the checkpoint has to contain.

    Raises:
        StateError: The checkpoint's file of the micro-batch is missing or damaged.
        UnavailableError: The state's store does not answer.
    """
    checkpoint, position = context.generation.checkpoint, offset_log.position_in_plan
    before = offset_log.offset_of(checkpoint, batch - 1, index) if batch else None
    after = offset_log.offset_of(checkpoint, batch, index)
    return range(position(before, planned.entries), position(after, planned.entries))


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
            checkpoint = self._context.generation.checkpoint
            committed = offset_log.committed_offset(checkpoint, self._index)
            # What was read is not read again: its files may be gone.
            entries = offset_log.position_in_plan(committed, self.planned.entries)
            self.planned.require_unchanged(entries)
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
        committed = offset_log.committed_offset(self._context.generation.checkpoint, self._index)
        entries = offset_log.position_in_plan(committed, self._planned.entries)
        self._planned.require_unchanged(entries)
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
            StateError: The checkpoint is damaged, or the state can't be written.
            UnavailableError: The storage or the state's store does not answer.
        """
        checkpoint = self._context.generation.checkpoint
        committed = offset_log.committed_offset(checkpoint, self._index)
        # What was read is not read again: its files may be gone.
        entries = offset_log.position_in_plan(committed, self._planned.entries)
        self._planned.require_unchanged(entries)
        self._planned.prepare()
        direct = direct_files(spark, self._planned)
        rows = partial(self._planned.stream, spark)
        return PlaceStream(rows, self._interval_ms(), direct=direct)

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
