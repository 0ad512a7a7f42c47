"""Interface of a source's fixed place in the query: stream, progress, when to build it again.

Spark's checkpoint knows the query's sources by their position in the plan, so each source of the
chain has a fixed place, whichever of them is read. The kinds of places are in the other modules of
this room; :mod:`spark_jobs.inside.query.query_sources` chooses among them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from sources.common.positions import EndPosition, Offsets
from sources.common.schema import ddl, parse_schema
from sources.common.sql.select import Selection
from sources.kafka.ranges.alignment import PartitionAlignment
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import FoundFiles
from sources.planning.files.rounds import Round
from sources.planning.topics.topic_plan import TopicPlan
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.readers.empty_stream import empty_stream
from spark_jobs.inside.readers.evaluate_select import select_columns
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.sink.driver_batches import DriverBatches


@dataclass(frozen=True)
class DirectStream:
    """Stream of a place whose reading tasks can write the rows themselves, past Spark.

    Attributes:
        written: Returns the stream of the tasks' reports on the rows that they write, and of
            records that they leave to Spark, if they may leave some.
        left: Computes the rows of the records that tasks have left, of a micro-batch with a
            number; None if they leave none.
        read: Returns what ``written`` would have of one micro-batch, given its DataFrame and
            number, from tasks that read the source themselves; None where that does not pay. None
            if they never do.
        count: Called with the number of a micro-batch, and the numbers of rows that its tasks have
            written, of records that they have left, and of those by partition that they have left
            out, as history has their rows; None if nobody counts them.
    """

    written: Callable[[RowWriters], DataFrame]
    left: Callable[[DataFrame, int], DataFrame] | None = None
    read: Callable[[RowWriters, DataFrame, int], DataFrame | None] | None = None
    count: Callable[[int, int, int, Offsets], None] | None = None


@dataclass(frozen=True)
class PlaceStream:
    """Stream of one place of the query's union, built for one run of the query.

    Attributes:
        make: Builds the DataFrame of its rows, for :attr:`rows`.
        interval_ms: Time between the starts of two micro-batches, in ms; 0 for no wait.
        filtering: Whether the seam filter (it removes live rows that history has delivered) is in
            the stream.
        is_first: Whether the query reads one small micro-batch only, so that it is committed soon,
            although very much waits.
        direct: The rows as a stream whose tasks write them themselves; None if Spark has to see
            each of them.
        alignment: Says where micro-batches end, so that no partition is read far ahead of another;
            None where nothing is aligned.
        in_driver: Reads the rows of small micro-batches in the driver; None if Spark has to.
    """

    make: Callable[[], DataFrame]
    interval_ms: int = 0
    filtering: bool = False
    is_first: bool = False
    direct: DirectStream | None = None
    alignment: PartitionAlignment | None = None
    in_driver: DriverBatches | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The rows as a stream; built at first use, as a query whose tasks write them needs none.

        Raises:
            InputError: ``select`` or a rule does not fit, or the seam filter needs history and a
                planned file is missing or was rewritten.
            SeamError: The seam filter needs history, and Kafka has deleted records of it.
        """
        return self.make()


@dataclass(frozen=True)
class Reached:
    """How far the source of a place was read, up to one of Spark's offsets.

    Attributes:
        splits: Number of splits of the plan that were read; None for a source without a plan.
        rows: Number of rows in these splits; None if unknown.
        event_time_ms: Highest event time in these splits, in ms; None if unknown.
        offsets: First offset not yet read, by partition; None for all but followed topics.
    """

    splits: int | None = None
    rows: int | None = None
    event_time_ms: int | None = None
    offsets: Offsets | None = None


class Filling(Protocol):
    """Interface of the folder of a place, which keeps filling while it is read."""

    @property
    def interval_ms(self) -> int:
        """Time between two listings, in milliseconds."""

    @property
    def splits(self) -> int:
        """Number of splits found so far; nothing is read."""

    @property
    def due_ms(self) -> int:
        """When the next listing is due (Unix ms)."""

    def discover(self) -> FoundFiles | None:
        """List the folder, and write new files to the state before anything reads them.

        Returns:
            The new files; None if there are none.

        Raises:
            InputError: A file can't be read, or does not fit; or the storage refuses.
            UnavailableError: The storage does not answer.
        """


class Growing(Protocol):
    """Interface of a place whose folder gets files while the stream reads it.

    The driver lists the folder by it (:mod:`spark_jobs.inside.driver.discoverer`) and adds what is
    new. Only the last source of a chain has such a place.
    """

    @property
    def folder(self) -> Filling:
        """Folder with all files found in it so far."""

    def take_in(self, arrived: FoundFiles) -> None:
        """Add discovered files to the source's Delta log; the running stream reads them next.

        Args:
            arrived: The files, whose discovery is in the state folder already.

        Raises:
            InputError: Spark is to read the source's files, and can't read these.
            StateError: The state is damaged, or can't be written.
            UnavailableError: The state's store does not answer.
        """

    def settle(self, committed: Any) -> str | None:
        """Record in the state that all files are read, once they are and no other one can arrive.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.

        Returns:
            A sentence about it, the first time; else None.

        Raises:
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """


class SourcePlace(ABC):
    """Place of one source: its fixed position in the query's union.

    Offsets that its methods take are Spark's own, decoded from JSON: the end offset of the source
    in a committed micro-batch, or None before the first one.

    Args:
        context: The pipeline and its state.

    Attributes:
        end: The source's end position once all that is planned now is read; None if it has no end.
        seam: The seam with the sources before it, if the source is a topic whose turn it is;
            else None.
        growing: This place itself, if its source is a folder that keeps filling; else None.
        files: Reader of planned files that Spark itself reads, and that others may write over: they
            are looked at before each micro-batch. None for another source.
        starts: First offset of each partition, if the source is a topic that is followed; else
            None.
        out_of_orderness_ms: How far a micro-batch reaches back in event time behind earlier ones;
            None if nothing is known about the order.
        is_by_arrival: Whether rows are read in the order in which they arrived.
        may_begin_small: Whether a first micro-batch that is small shows rows soon.
    """

    end: EndPosition | None = None
    seam: Seam | None = None
    growing: Growing | None = None
    files: PlannedSource | None = None
    starts: Offsets | None = None
    out_of_orderness_ms: int | None = None
    is_by_arrival: bool = False
    may_begin_small: bool = True

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    @abstractmethod
    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the source's stream in the query, after checks that it can be read on.

        Called once for each query that is built; nothing is read yet.

        Raises:
            InputError: Planned files changed, or ``select`` does not fit.
            SeamError: The start offsets, or records to be read next, are no longer in Kafka.
            StateError: The hand-over (the decision where the source starts) was not made, the
                checkpoint has other start offsets or is damaged, or the state can't be written.
            UnavailableError: A broker or storage does not answer.
        """

    def require_same_log(self) -> None:  # noqa: B027 - only topics have one
        """Refuse topics that are not the same ones any more, or no longer hold what was read.

        Asked while the query runs, and at its end. Nothing is done for files.

        Raises:
            SeamError: A topic was deleted, and perhaps created again, is in another cluster, or its
                log was truncated.
            StateError: The state or the checkpoint is damaged.
            UnavailableError: The broker or the state's store does not answer.
            InputError: The broker refuses, or there is no such topic.
        """

    def is_drained(self, _committed: Any) -> bool:
        """Return whether every planned split was read and committed; False without a plan.

        Args:
            _committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return False

    def reached(self, _committed: Any) -> Reached:
        """Return how far the source was read; all None for a source that is not read.

        Args:
            _committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return Reached()

    def next_round(self) -> Round | None:
        """Plan another round, a further listing of a source read to its end, if one is due.

        Returns:
            What the round found, to be read next; None if no round is due, as always for sources
            other than files.

        Raises:
            InputError: A new file can't be read, or has other columns.
            SeamError: The hand-over could not be made for another reason.
            StateError: The state is damaged, or can't be written.
            UnavailableError: A broker or storage does not answer.
            GapError: The hand-over could not be made, and no file has arrived that may help.
        """
        return None

    def is_outdated(self, _stream: PlaceStream, _committed: Any) -> bool:
        """Return whether the stream would now be built differently, so that the query must restart.

        Asked at each look at a live query. False unless a subclass says otherwise.

        Args:
            _stream: The stream in the running query.
            _committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return False

    def has_uncounted_seam(self, _committed: Any) -> bool:
        """Return whether the seam was read past but its rows are not counted yet.

        The seam is the interval of offsets in which live rows may repeat history. False for a
        source without one.

        Args:
            _committed: Spark's offset of the source, decoded from JSON; None if never read.

        Raises:
            StateError: The count of the rows is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        return False


class WaitingPlace(SourcePlace):
    """Place of a source whose turn has not come: an empty stream, whose ``select`` is checked.

    Args:
        context: The pipeline and its state.
        selection: The source's ``select``.
        planned: The source's part of the plan.
    """

    def __init__(
        self, context: PipelineContext, selection: Selection, planned: TopicPlan | FoundFiles
    ) -> None:
        super().__init__(context)
        self._selection = selection
        self._planned = planned

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return a stream without rows, after a check of ``select``, which would fail hours later.

        Raises:
            InputError: Spark can't evaluate ``select``, or a type differs from the planned one.
        """
        if self._selection.expressions:
            nothing = spark.createDataFrame([], ddl(parse_schema(self._planned.read)))
            select_columns(nothing, self._selection, parse_schema(self._planned.columns))
        context = self._context
        return PlaceStream(partial(empty_stream, spark, context.generation, context.plan.columns))
