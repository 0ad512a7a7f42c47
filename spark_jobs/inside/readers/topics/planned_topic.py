"""Reading of a bounded topic from its plan of offset ranges; refused if records were deleted.

A Delta log lists small tables of splits, one for each micro-batch; tasks read the ranges with a
consumer of their own. Spark's own Kafka stream has no end: in later runs on the same checkpoint
it would continue to read, whereas a plan stays drained for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import EndPosition
from sources.common.schema import ddl, parse_schema
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import Batch
from sources.config.table.row_rules import NO_RULES, RowRules
from sources.errors import ErrorFields, RunError, SeamError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.log_checks import check_not_truncated
from sources.planning.topics.topic_range import (
    RANGE_SPLITS,
    TopicRange,
    first_unread_offsets,
    read_range_splits,
)
from sources.state.generation import Generation
from spark_jobs.inside.errors.error_reports import raise_reported
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog, versions_of
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.inside.readers.topics.direct_records import BatchParser, DirectRecords, batch_parser
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import read_topics
from spark_jobs.inside.readers.topics.parse_records import parse_values, rows_of
from spark_jobs.inside.readers.topics.range_records import columns_of, range_reader


class PlannedTopic:
    """Reader of a bounded Kafka source's planned range of offsets, as a stream or as a batch.

    Args:
        source: The declaration.
        decided: Its range of offsets, which was decided at its hand-over.
        generation: State of the generation, which keeps plan, Delta log and bad records.
        read: Names and types of all columns of a record, before ``select``.
        event_time: The pipeline's event time, with the bounds that its times have to be in.
        rules: Rules that its rows have to meet.

    Raises:
        InputError: ``select`` does not fit the columns.
    """

    def __init__(
        self,
        source: KafkaSource,
        decided: TopicRange,
        generation: Generation,
        read: Mapping[str, str],
        event_time: EventTime,
        rules: RowRules = NO_RULES,
    ) -> None:
        self._source = source
        self._event_time = EventTimeCheck(event_time, decided.clock_ms)
        self._range = decided
        self._rules = rules
        self._generation = generation
        self._read = read
        self._columns = source.selected(read)
        self._log = PlanLog(generation.folder(f"plan-log/{source.name}"))
        # A log without an entry would never be read to its end.
        self._batches = max(decided.batches, 1)

    @property
    def entries(self) -> list[int]:
        """Number of entries in each version of its Delta log; each entry is a micro-batch.

        Delta's offsets count them, so a committed offset is turned into a position by this list.
        """
        return [stop - first for first, stop in versions_of(self._batches)]

    @cached_property
    def _splits(self) -> pa.Table:
        return read_range_splits(self._range, self._generation)

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return how far the range was read: the number of splits in its log's first entries.

        Args:
            entries: Number of entries (micro-batches) that were read.

        Returns:
            Number of splits; then None twice, as rows and highest event time are unknown.
        """
        return int(np.searchsorted(self._splits["batch"].to_numpy(), entries)), None, None

    @property
    def end(self) -> EndPosition:
        """End position of the source once all of its range is read."""
        return self._range.end

    @property
    def is_parsed(self) -> bool:
        """True: a range of event times is in unknown records."""
        return True

    @property
    def largest(self) -> Batch:
        """Highest number of offsets that a micro-batch reads; bytes, files and rows are None.

        Computed from the plan at each access; 0 for an empty range.
        """
        sizes = np.zeros(self._batches, np.int64)
        counts = self._splits["end"].to_numpy() - self._splits["first"].to_numpy()
        np.add.at(sizes, self._splits["batch"].to_numpy(), counts)
        return Batch(offsets=int(sizes.max()))

    def require_unchanged(self, entries_done: int = 0) -> None:
        """Refuse to read the range if Kafka has deleted records of it that are still to be read.

        Asks the broker; called before a query is built.

        Args:
            entries_done: Number of log entries that were read already: their records may be gone.

        Raises:
            InputError: The broker refuses, or has no such topic.
            SeamError: Records are deleted, or the log ends before the range; the message names the
                first such partition with both offsets.
            UnavailableError: The broker does not answer.
        """
        log = KafkaLog(self._source)
        check_not_truncated(self._range.ends, log.high_watermark())
        begun = log.log_start()
        for at, first in first_unread_offsets(self._splits, entries_done).items():
            if begun.get(at, first + 1) > first:
                held = (
                    f"Kafka has deleted its records below offset {begun[at]}"
                    if at in begun
                    else "the topic no longer has this partition"
                )
                name, (topic, number) = self._source.name, at
                message = (
                    f"Source `{name}`: {at} is to be read from offset {first} on, but "
                    f"{held}. Its rows would be missing from the table."
                )
                hint = "Begin a new generation, which plans the range: `hybrid generation new P`."
                if at in begun:
                    hint += f" First raise `retention.ms` of topic `{topic}`."
                fields = ErrorFields(source=name, topic=topic, partition=number, offset=first)
                raise SeamError(message, hint, **fields)

    def prepare(self) -> None:
        """Write the versions of the source's Delta log that do not exist yet; it can be repeated.

        Call it before :meth:`stream`, which reads the log.

        Raises:
            StateError: The folder can't be written.
        """
        for version, (first, stop) in enumerate(versions_of(self._batches)):
            if not self._log.has(version):
                self._log.write(version, FilesOfLog(RANGE_SPLITS), self._entries(first, stop))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the parsed rows as a stream, in planned order; call :meth:`prepare` before.

        Each row carries its topic, partition and offset (``LOG_COLUMNS``) for the seam filter.

        Raises:
            InputError: The schema of the values can't be obtained, or ``select`` does not fit it.
            StateError: The state is damaged.
            UnavailableError: The schema registry or the state's store does not answer; or
                ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        splits = self._splits_of(spark)
        raw = splits.mapInArrow(range_reader(self._source), ddl(columns_of(self._source)))
        return self._parsed(raw)

    def batch_parser(self, spark: SparkSession) -> BatchParser | None:
        """Return the parser for tasks that write rows; None if Spark must see or parse them.

        Raises:
            InputError: The decoder of the value's format can't be built, as for a schema file that
                can't be read.
        """
        return batch_parser(spark, self._source, self._read, self._rules)

    def written(self, spark: SparkSession, parse: BatchParser, writers: RowWriters) -> DataFrame:
        """Return a stream, in planned order, of reports of tasks that read and write the records.

        Call :meth:`prepare` before. A report is about written rows, or is a record that its task
        has left for :meth:`left`.

        Args:
            spark: The Spark session.
            parse: How they parse, from :meth:`batch_parser`.
            writers: How they write.

        Raises:
            UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        records = DirectRecords(self._source, self._read, self._event_time, parse, writers)
        return records.of_splits(self._splits_of(spark))

    def left(self, records: DataFrame, _batch_id: int) -> DataFrame:
        """Return the rows of those records that the tasks could not write to the target themselves.

        Of a query whose tasks parse records and write the rows: where a whole batch can't be
        decoded at once, :mod:`spark_jobs.inside.sink.appending.direct_sink` passes the records
        here and writes the result.

        Args:
            records: The raw records, with topic, partition and offset.
            _batch_id: Number of the micro-batch; unused, as tasks know it when they stage records.

        Returns:
            Rows with the source's output columns. A bad record fails the query later, or is staged
            and left out (``on_bad_record``).

        Raises:
            InputError: The schema of the values can't be obtained, ``select`` does not fit it, or
                Spark can't evaluate a rule.
            StateError: The state is damaged.
            UnavailableError: The schema registry or the state's store does not answer.
        """
        checks = (
            self._event_time,
            self._rules,
            staging_folder(self._generation, self._source.name),
        )
        return rows_of(records, self._source, self._read, self._generation, checks)

    def _splits_of(self, spark: SparkSession) -> DataFrame:
        """Return the splits as a stream, in planned order, spread over tasks."""
        return self._log.stream(spark, 1).repartition(spark.sparkContext.defaultParallelism)

    def drained(self, spark: SparkSession) -> DataFrame:
        """Return the empty stream of a source that was read to its end; no task runs for it.

        It keeps the source's place in the query's union. The query fails with a :class:`RunError`
        if Spark finds anything left to read.
        """
        text = (
            f"Source `{self._source.name}` was read to its end, but Spark reads more of it. The "
            "micro-batch was stopped before it wrote a row."
        )
        hint = (
            "Run the pipeline again: `hybrid run P`. If this message comes back, the checkpoint "
            "does not fit the state folder: begin a new generation (`hybrid generation new P`)."
        )
        fields = {"source": F.lit(self._source.name)}
        failing = raise_reported(RunError, F.lit(text), hint, fields)
        types = self._columns.items()
        self._log.complete(spark, len(self.entries))
        return self._log.stream(spark, 1).select(
            *(failing.cast(kind).alias(name) for name, kind in types)
        )

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all records of the range as a batch of parsed rows, whatever was read before.

        Spark's own Kafka source reads them when it is evaluated. Bad records are left out without
        being staged, unless ``on_bad_record`` is ``fail``.

        Raises:
            InputError: The schema of the values can't be obtained, or ``select`` does not fit it.
            StateError: The state is damaged.
            UnavailableError: The schema registry or the state's store does not answer; or
                ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        raw = read_topics(spark, self._source, self._range.starts, self._range.ends)
        if raw is None:
            return spark.createDataFrame([], ddl(parse_schema(self._columns)))
        return self._parsed(raw)

    def _parsed(self, raw: DataFrame) -> DataFrame:
        return parse_values(
            raw, self._source, self._read, self._generation, self._event_time, self._rules
        )

    def _entries(self, first: int, stop: int) -> Iterator[Entry]:
        for number in range(first, stop):
            table = self._splits.filter(pc.equal(self._splits["batch"], number))
            yield self._log.keep(f"splits-{number:06d}.parquet", table)
