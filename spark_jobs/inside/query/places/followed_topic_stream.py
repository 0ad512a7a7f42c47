"""Rows of a followed topic: sizes of micro-batches (the first is small), and who reads them.

Who reads a micro-batch is decided by its size: tasks read many offsets of the topic themselves
(:data:`READ_OFFSETS`), the driver few (:mod:`spark_jobs.inside.readers.topics.driver_records`). The
first one is small: :data:`FIRST_OFFSETS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sources.common.durations import span_ms
from sources.common.positions import EndPosition, Offsets
from sources.common.schema import parse_schema
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit, live_pace, rate_of
from sources.config.table.row_rules import RowRules
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.ranges.alignment import PartitionAlignment
from sources.kafka.ranges.cut_ranges import SPLIT_OFFSETS, size_of, splits_of
from sources.planning.context import PipelineContext
from sources.planning.topics.key_of_changes import ExpectedKey, keep_key, known_key
from sources.planning.topics.topic_range import planned_of
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.batch_ranges import BatchRanges
from spark_jobs.inside.query.places.alignments import alignment_of
from spark_jobs.inside.query.places.history import EarlierSources
from spark_jobs.inside.query.places.place import DirectStream
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.inside.readers.topics.direct_records import DirectRecords, are_whole, batch_parser
from spark_jobs.inside.readers.topics.driver_records import driver_records
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import stream_topics, with_new_partitions
from spark_jobs.inside.readers.topics.limited_kafka import limited_format
from spark_jobs.inside.readers.topics.parse_records import (
    parse_values,
    record_columns,
    records_of,
    rows_of,
)
from spark_jobs.inside.readers.topics.range_records import can_read
from spark_jobs.inside.sink.driver_batches import DriverBatches

FIRST_OFFSETS = 200_000
"""Highest number of offsets in the first micro-batch."""
READ_OFFSETS = 20_000
"""Lowest number of offsets of a partition in a micro-batch, on average, that tasks read themselves.

Each opens a consumer of its own; Spark's stay open."""


@dataclass(frozen=True)
class Prepared:
    """DataFrame of the topic that is read next, built while history is still being read.

    Attributes:
        made_of: Source, start offsets, offsets of a micro-batch, key of its changes and alignment
            that it was built with. After the switch it is used only if these are the same.
        rows: The DataFrame, a stream of the topic's parsed rows, without the seam filter.
    """

    made_of: tuple[Any, ...]
    rows: DataFrame


@dataclass(frozen=True)
class FollowedTopic:
    """Topic that is followed without end from given offsets, as part of a query.

    Attributes:
        generation: State of the generation, in which bad records are staged.
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
        event_time: Check of the event times.
        rules: Rules that the rows have to meet.
        partitions: Start offset of each partition; -2 for its beginning.
        max_offsets: Highest number of offsets in one micro-batch, all partitions together.
        seam: The seam whose rows are filtered (the offsets in which live rows may repeat history);
            None if it is passed.
        alignment: Says where micro-batches end; None for a source without ``align``.
    """

    generation: Generation
    source: KafkaSource
    columns: Mapping[str, str]
    event_time: EventTimeCheck
    rules: RowRules
    partitions: Offsets
    max_offsets: int
    seam: Seam | None
    alignment: PartitionAlignment | None = None

    def rows(self, spark: SparkSession, prepared: Prepared | None = None) -> DataFrame:
        """Return the topic's rows as a stream: parsed, without those that the seam filter removes.

        Nothing is read from the topic yet; the filter may read history.

        Args:
            spark: The Spark session.
            prepared: DataFrame of the rows without the filter that was built before; it is used if
                source and offsets are still those it was built with.

        Raises:
            InputError: The schema of the values can't be obtained, ``select`` does not fit it, or
                the filter needs history, and a planned file is missing or was rewritten, or the
                target can't be read.
            SeamError: The filter needs history, and Kafka has deleted records of it.
            StateError: The seam is filtered by log position, and ``sequence`` is not declared; or
                the state is damaged.
            UnavailableError: The schema registry or a store does not answer, or
                ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        is_ready = prepared is not None and prepared.made_of == self._made_of
        rows = prepared.rows if prepared is not None and is_ready else self._parsed(spark)
        return rows if self._filter is None else self._filter.apply(rows)

    def _parsed(self, spark: SparkSession) -> DataFrame:
        made_of = (self.source, self.columns, self.generation, self.event_time, self.rules)
        return parse_values(self._raw(spark), *made_of)

    def direct(self, spark: SparkSession, place: int) -> DirectStream | None:
        """Return the topic's stream whose reading tasks write the rows themselves, past Spark.

        None if Spark alone can parse the records, or can decide which of them history has, whose
        keys are looked up for that.

        Args:
            spark: The Spark session.
            place: Number of its place in the query's union, from 0.

        Raises:
            InputError: The schema of the values can't be obtained, a planned file is missing or was
                rewritten, or the target can't be read.
            SeamError: Kafka has deleted records of history.
            StateError: The state is damaged.
            UnavailableError: History is needed, and a storage does not answer.
        """
        parse, certain = batch_parser(spark, self.source, self.columns, self.rules), None
        if parse is not None and self._filter is not None:
            certain = self._filter.certain_rows(spark, parse_schema(self.columns))
        if parse is None or (self._filter is not None and certain is None):
            return None
        judge = None if certain is None else certain.judge
        made_of = (self.source, self.columns, self.event_time, parse)
        records = partial(DirectRecords, *made_of, judge=judge)

        def written(writers: RowWriters) -> DataFrame:
            return records(writers).of_stream(self._records(spark))

        checkpoint = self.generation.checkpoint
        ranges = BatchRanges(checkpoint, place)

        def read(writers: RowWriters, batch: DataFrame, batch_id: int) -> DataFrame | None:
            found = ranges.of(batch_id)
            if not found or size_of(found) < READ_OFFSETS * len(found):
                return None
            session, clock_ms = batch.sparkSession, offset_log.clock_ms(checkpoint, batch_id)
            # What a consumer has fetched beyond its split is lost, so there are few large ones.
            size, cores = size_of(found), session.sparkContext.defaultParallelism
            splits = splits_of(found, max(size // (2 * cores), SPLIT_OFFSETS))
            # To open a consumer takes longer than to read a short split after another one.
            tasks = min(cores, len(splits)) if size < cores * SPLIT_OFFSETS else len(splits)
            numbers = session.range(0, len(splits), 1, tasks)
            return records(writers).of_numbered(splits, numbers, clock_ms)

        def count(batch_id: int, written: int, left: int, held: Offsets) -> None:
            found, told = ranges.of(batch_id), written + left + sum(held.values())
            # Where an offset has no record, it is unknown which one.
            if self._filter is not None and found and size_of(found) == told:
                self._filter.counts.add(batch_id, found, left, held)

        return DirectStream(
            written,
            self._left,
            read if can_read(self.source, spark) else None,
            None if certain is None else count,
        )

    def in_driver(self, spark: SparkSession, place: int) -> DriverBatches | None:
        """Return the topic's micro-batches, of which the driver reads small ones by itself.

        None as long as only Spark can filter the seam, and if it has to read all records.

        Args:
            spark: The Spark session.
            place: Number of its place in the query's union, from 0.

        Raises:
            InputError: The schema of the values can't be obtained, or history is needed, and a
                planned file is missing or was rewritten, or the target can't be read.
            SeamError: History is needed, and Kafka has deleted records of it.
            StateError: The seam is filtered by log position, and ``sequence`` is not declared; or
                the state is damaged.
            UnavailableError: A storage does not answer, or ``bootstrap_servers`` is ``local``, and
                no local broker is running.
        """
        seam = self._filter
        if not are_whole(self.source, self.rules):
            return None
        new = None if seam is None else seam.in_driver(spark, parse_schema(self.columns))
        if seam is not None and new is None:
            return None
        made_of = (self.generation, self.source, self.columns, self.event_time.declared)
        if (reader := driver_records(spark, *made_of, place)) is None:
            return None

        def rows(batch_id: int) -> pa.RecordBatch | None:
            found = reader.rows(batch_id)
            return found if found is None or new is None else new.new(found)

        return DriverBatches(rows, partial(self._records, spark), self._left)

    def _left(self, records: DataFrame, batch_id: int) -> DataFrame:
        """Return the rows of those records of a micro-batch that only Spark reads."""
        clock_ms = offset_log.clock_ms(self.generation.checkpoint, batch_id)
        staging = staging_folder(self.generation, self.source.name)
        checks = (replace(self.event_time, clock_ms=clock_ms), self.rules, staging)
        rows = rows_of(records, self.source, self.columns, self.generation, checks)
        return rows if self._filter is None else self._filter.apply_to_left(rows, batch_id)

    def prepare(self, spark: SparkSession) -> Prepared:
        """Build the DataFrame of the topic's rows in advance, for a query that starts later.

        Nothing is read from the topic. :meth:`rows` uses it if it still fits then.

        Raises:
            InputError: The schema of the values can't be obtained, or ``select`` does not fit it.
            StateError: The state is damaged.
            UnavailableError: The schema registry or the state's store does not answer, or
                ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        return Prepared(self._made_of, self._parsed(spark))

    def _raw(self, spark: SparkSession) -> DataFrame:
        made_of = (spark, self.source, self.partitions, self.max_offsets)
        if (alignment := self.alignment) is None:
            return stream_topics(*made_of)
        ends = partial(alignment.ends, limit=self.max_offsets)
        name = f"{self.generation.info.transaction_id} {self.source.name}"
        return stream_topics(*made_of, limited_format(spark, name, ends))

    def _records(self, spark: SparkSession) -> DataFrame:
        return records_of(self._raw(spark), self.source, self.columns)

    @property
    def _filter(self) -> Seam | None:
        return None if self.seam is None or self.seam.is_passed({}) else self.seam

    @property
    def _made_of(self) -> tuple[Any, ...]:
        key = known_key(self.generation, self.source) if self.source.changes else None
        return (self.source, self.partitions, self.max_offsets, key, self.alignment)


def is_small_at_first(source: KafkaSource, rate: RateLimit, log: KafkaLog, start: Offsets) -> bool:
    """Return whether the first micro-batch must be limited, as much more input waits than it.

    So something is committed soon. Never with a rate limit in offsets, which keeps micro-batches
    small, nor where ``max_offsets_per_batch`` is no more than that. Call it only if nothing of the
    topic was read yet.

    Args:
        source: The declaration.
        rate: Its rate limit.
        log: The topic's log, which is asked for its bounds.
        start: Start offset of each partition; -2 for its beginning.

    Raises:
        UnavailableError: The broker does not answer.
    """
    if source.max_offsets_per_batch <= FIRST_OFFSETS or rate.offsets is not None:
        return False
    begin = log.log_start()
    waiting = sum(
        end - max(start.get(at, 0), begin.get(at, 0)) for at, end in log.log_end().items()
    )
    return waiting > FIRST_OFFSETS


def pace_of(
    source: KafkaSource, rate: RateLimit, partitions: Offsets, *, is_first: bool
) -> tuple[int, int]:
    """Return the size and the interval of a followed topic's micro-batches under its rate limit.

    Args:
        source: The declaration, with ``trigger_interval`` and ``max_offsets_per_batch``.
        rate: Its rate limit.
        partitions: Start offset of each partition.
        is_first: Whether only the first, small micro-batch is read (:func:`is_small_at_first`).

    Returns:
        Highest number of offsets in one micro-batch over all partitions, and milliseconds between
        the starts of two.
    """
    most = source.max_offsets_per_batch
    if is_first:
        most = min(most, FIRST_OFFSETS)
    return live_pace(rate, span_ms(source.trigger_interval), most, len(partitions))


class ExpectedTopic:
    """Topic after the bounded source being read, with the start offsets that the plan expects.

    A driver prepares the live query with it while history is still read.

    Args:
        context: The pipeline and its state.
        live: The topic's source.
        end: The end position that the source being read will have.
        history: All sources up to and including that one.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(
        self, context: PipelineContext, live: KafkaSource, end: EndPosition, history: EarlierSources
    ) -> None:
        self._context = context
        self._live = live
        self._columns = record_columns(context.plan, live)
        self._event_time = EventTimeCheck(context.pipeline.event_time)
        self._start = context.plan.topic_of(live.name).expected_start
        self._ends = [*context.switch_state.ends_before(end.source), end]
        self._seam = Seam(
            context,
            live,
            ends=self._ends,
            start=self._start,
            seam_end=planned_of(context.generation, context.plan, end.source).seam_end,
            history=history,
        )

    def rehearsal(self, spark: SparkSession, shadow: Generation) -> DataFrame:
        """Return the topic's rows, parsed and filtered as by the live query, for a trial run.

        A stream; a micro-batch reads one offset of each partition. The keys of history that the
        seam filter needs are looked up, and kept for the live query.

        Args:
            spark: The Spark session.
            shadow: Temporary state folder for what a query leaves behind, such as bad records.

        Raises:
            InputError: The schema of the values can't be obtained, or a planned file is missing or
                was rewritten.
            SeamError: Kafka has deleted records of history.
        """
        raw = stream_topics(spark, self._live, self._start.offsets(), 1)
        rules = self._context.pipeline.row_rules
        rows = parse_values(raw, self._live, self._columns, shadow, self._event_time, rules)
        return rows if self._seam.is_passed({}) else self._seam.apply(rows)

    def waits_for_table(self, spark: SparkSession) -> bool:
        """Return whether rows of history for the seam will be read from the target, at the switch.

        Tasks then mostly write the topic's rows themselves, so a rehearsal would be of no use.
        """
        return self._seam.waits_for_table(spark)

    def keep_seam_keys(self, spark: SparkSession) -> None:
        """Write the keys of history that the seam filter will need, as Parquet, before the switch.

        Reads history. Nothing is done if they are kept already, or if the filter does not compare
        keys.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of history.
        """
        self._seam.keep_keys(spark)

    def prepare(self, spark: SparkSession) -> Prepared:
        """Build the DataFrame of the topic's rows from the expected start offsets on.

        Called while history is read. After the switch it is used if start and rate limit are then
        the same. Nothing is read from the topic.

        Raises:
            StateError: The state is damaged, or can't be written.
            UnavailableError: The broker, the schema registry or the state's store does not answer.
            InputError: The schema of the values can't be obtained.
        """
        generation, live = self._context.generation, self._live
        log = KafkaLog(live)
        partitions = with_new_partitions(self._start.offsets(), log.partitions)
        if self._context.pipeline.sink.mode == "merge":
            expected = ExpectedKey.of(self._context.pipeline.sink, live, self._ends)
            keep_key(generation, live, log, self._start.offsets(), expected)
        rate = rate_of(generation, live.name, live.rate)
        is_first = is_small_at_first(live, rate, log, partitions)
        offsets, _ = pace_of(live, rate, partitions, is_first=is_first)
        topic = FollowedTopic(
            generation,
            live,
            self._columns,
            self._event_time,
            self._context.pipeline.row_rules,
            partitions,
            offsets,
            self._seam,
            alignment_of(generation, live),
        )
        return topic.prepare(spark)
