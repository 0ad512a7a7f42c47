"""Reading a bounded Kafka source from a plan, as files are: here of ranges of offsets.

A Delta log lists small tables of splits, one for each micro-batch; tasks read the ranges with a
consumer of their own. Spark's own Kafka stream has no end: in later runs on the same checkpoint
it would continue to read, whereas a plan stays drained for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import EndPosition, TopicPartition
from sources.common.schema import TIMESTAMP, ddl, parse_schema
from sources.config.event_time import EventTime
from sources.config.kafka_source import KafkaSource
from sources.config.rate_limit import Batch
from sources.config.rules import NO_RULES, RowRules
from sources.errors import RunError, SeamError
from sources.kafka.address import resolve_bootstrap
from sources.kafka.client import KafkaLog
from sources.kafka.consumer import consumer_settings
from sources.kafka.range_reader import RangeReader
from sources.kafka.ranges import Split
from sources.planning.topic_range import RANGE_SPLITS, TopicRange, read_range_splits, unread
from sources.state.generation import Generation
from spark_jobs.readers.event_times import EventTimeCheck
from spark_jobs.readers.kafka_stream import read_topics
from spark_jobs.readers.parse_records import parse_values
from spark_jobs.readers.plan_log import Entry, FilesOfLog, PlanLog, versions_of
from spark_jobs.readers.spark_errors import Step, raise_reported, reporting

# The same columns as those of Spark's own Kafka source.
_RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
_HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


class PlannedTopic:
    """A bounded Kafka source, readable as a stream or as a batch.

    Args:
        source: The declaration.
        decided: Its range of offsets, which was decided at its hand-over.
        generation: State of the generation, which keeps plan, Delta log and bad records.
        read: Names and types of all columns of a record, before ``select``.
        event_time: The pipeline's event time, with the bounds that its times have to be in.
        rules: Rules that its rows have to meet.
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
        """Return the number of splits in the first entries of its log.

        Returns:
            Number of splits; then None twice, as rows and highest event time are unknown.
        """
        batches = self._splits["batch"].to_numpy()
        return int(np.searchsorted(batches, entries)), None, None

    @property
    def end(self) -> EndPosition:
        """End position that the source will have once all of it is read; known from its range."""
        return self._range.end

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
        """Refuse to read a range of which Kafka has deleted records.

        Args:
            entries_done: Number of log entries that were read already: their records may be gone.

        Raises:
            SeamError: Kafka has deleted records that are still to be read; the message names the
                first such partition with both offsets.
            UnavailableError: The broker does not answer.
        """
        begun = KafkaLog(self._source).log_start()
        for at, first in unread(self._splits, entries_done).items():
            if begun.get(at, first + 1) > first:
                held = (
                    f"Kafka has deleted its records below offset {begun[at]}"
                    if at in begun
                    else "the topic no longer has this partition"
                )
                message = (
                    f"Source `{self._source.name}`: {at} is to be read from offset {first} on, but "
                    f"{held}. Its rows would be missing from the table."
                )
                hint = (
                    f"Raise `retention.ms` of topic `{at.topic}`, so that this does not happen "
                    "again, and begin a new generation, which plans the range again: "
                    "`hybrid generation new P`."
                )
                raise SeamError(
                    message,
                    hint,
                    source=self._source.name,
                    topic=at.topic,
                    partition=at.partition,
                    offset=first,
                )

    def prepare(self) -> None:
        """Write the versions of the source's Delta log that do not exist yet."""
        for version, (first, stop) in enumerate(versions_of(self._batches)):
            if not self._log.has(version):
                self._log.write(version, FilesOfLog(RANGE_SPLITS), self._entries(first, stop))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the parsed rows as a stream, in planned order; call :meth:`prepare` before.

        Each row carries its topic, partition and offset (``LOG_COLUMNS``) for the seam filter.

        Raises:
            InputError: The schema of the values can't be obtained, or ``select`` does not fit it.
        """
        entries = self._log.stream(spark, 1)
        spread = entries.repartition(spark.sparkContext.defaultParallelism)
        raw = spread.mapInArrow(range_reader(self._source), ddl(_columns_of(self._source)))
        return self._parsed(raw)

    def drained(self, spark: SparkSession) -> DataFrame:
        """Return the stream of a source that was read to its end: no task runs for it.

        The query fails with a :class:`RunError` if Spark finds anything left to read.
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
        """Return the whole range as a batch of parsed rows, read by Spark's own Kafka source.

        Raises:
            InputError: The schema of the values can't be obtained, or ``select`` does not fit it.
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


def _columns_of(source: KafkaSource) -> pa.Schema:
    """Return the columns of a source's records; headers only if they are included, as in Spark."""
    return _RECORDS.append(_HEADERS) if "headers" in source.include.values() else _RECORDS


def range_reader(source: KafkaSource) -> Step:
    """Return a function for ``mapInArrow`` that reads the records of ranges of offsets.

    Its input are rows of splits (topic, partition, first offset, offset after the last), its output
    rows like those of Spark's own Kafka source. A range of which records were deleted fails the
    task with a :class:`SeamError` that names topic, partition and offset.

    Args:
        source: The declaration.
    """
    # Only the driver's machine knows the address of a local broker.
    servers = resolve_bootstrap(source.bootstrap_servers)
    located = source.model_copy(update={"bootstrap_servers": servers})
    columns = _columns_of(source)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader: RangeReader | None = None
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    # A task without splits opens no consumer.
                    reader = reader or RangeReader(consumer_settings(located))
                    at = TopicPartition(row["topic"], row["partition"])
                    for messages in reader.read(Split(at, row["first"], row["end"])):
                        yield _records(at, messages, columns)
        finally:
            if reader is not None:
                reader.close()

    return reporting(read)


def _records(at: TopicPartition, messages: list[Any], columns: pa.Schema) -> pa.RecordBatch:
    count = len(messages)
    # Kafka's timestamps are in milliseconds; a negative one means that there is none.
    times = [message.timestamp()[1] for message in messages]
    millis = pa.array([time if time >= 0 else None for time in times], pa.timestamp("ms", "UTC"))
    arrays = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(at.topic, count),
        pa.repeat(pa.scalar(at.partition, pa.int32()), count),
        pa.array([message.offset() for message in messages], pa.int64()),
        millis.cast(TIMESTAMP),
    ]
    if _HEADERS.name in columns.names:
        headers = [
            message.headers() and [{"key": key, "value": value} for key, value in message.headers()]
            for message in messages
        ]
        arrays.append(pa.array(headers, _HEADERS.type))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
