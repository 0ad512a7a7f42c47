"""Reading of offset ranges in Spark tasks, each with its own consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from sources.common.positions import TopicPartition
from sources.common.schema import TIMESTAMP
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.batch_cursor import Mask
from sources.kafka.client.address import resolve_bootstrap
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.client.headers import headers_of
from sources.kafka.ranges.cut_ranges import Split
from sources.kafka.ranges.range_reader import RangeReader
from sources.planning.topics.topic_range import RANGE_SPLITS
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.errors.error_reports import reporting

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
"""Columns of the records, which are those of Spark's own Kafka source."""
_HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
# Without the micro-batch.
_SPLITS = RANGE_SPLITS.remove(0)


def columns_of(source: KafkaSource) -> pa.Schema:
    """Return the columns of a topic's raw records; headers only if the source includes them."""
    return RECORDS.append(_HEADERS) if "headers" in source.include.values() else RECORDS


def as_rows(splits: Sequence[Split]) -> pa.RecordBatch:
    """Return offset ranges (splits) as rows: topic, partition, first offset, offset after the last.

    :func:`range_reader` takes such rows.
    """
    rows = [
        {"topic": topic, "partition": number, "first": each.first, "end": each.end}
        for each in splits
        for topic, number in [each.partition]
    ]
    return pa.RecordBatch.from_pylist(rows, _SPLITS)


def can_read(source: KafkaSource, spark: SparkSession) -> bool:
    """Return whether tasks can read records: log in to the broker on every machine of the cluster.

    They can on the driver's own machine (``local``), and without ``security``: files of
    certificates, and those that the system trusts, are those of the driver's machine.

    Args:
        source: The declaration.
        spark: The Spark session.
    """
    is_local = str(spark.sparkContext.master).startswith("local")
    return is_local or source.security is None


class Fetched(NamedTuple):
    """Records of one partition, in order of their offsets, as a consumer has fetched them.

    Attributes:
        partition: The partition.
        messages: The records, each a ``confluent_kafka.Message``.
    """

    partition: TopicPartition
    messages: list[Any]

    def batch(self, columns: pa.Schema) -> pa.RecordBatch:
        """Return some columns of the records as a batch.

        There has to be a record. One without a timestamp has the time -1 ms, as in Spark.

        Args:
            columns: Those of :func:`columns_of` that are needed; each costs time.
        """
        arrays = [_COLUMNS[name](self) for name in columns.names]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    def where(self, mask: Mask) -> Fetched:
        """Return only the records for which a mask, one boolean for each, is true."""
        return self._replace(messages=[self.messages[at] for at in np.flatnonzero(mask)])


def range_reader(source: KafkaSource) -> Step:
    """Return a ``mapInArrow`` function that reads ranges of offsets with a consumer of the task.

    Its input are rows of splits (topic, partition, first offset, offset after the last), its output
    rows like those of Spark's own Kafka source. A range of which records were deleted fails the
    task with a :class:`SeamError` that names topic, partition and offset.

    Raises:
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    fetch, columns = fetcher(source), columns_of(source)
    return reporting(lambda batches: (each.batch(columns) for each in fetch(batches)))


def fetcher(source: KafkaSource) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Fetched]]:
    """Return a function for tasks that reads ranges of offsets and yields records as fetched.

    For tasks that need only some columns of a record. The consumer is opened at the first range and
    closed at the end; the ranges are rows of topic, partition, first offset, offset after the last.

    Raises:
        SeamError: By the function: records of a range were deleted.
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    # Only the driver's machine knows the address of a local broker.
    servers = resolve_bootstrap(source.bootstrap_servers)
    located = source.model_copy(update={"bootstrap_servers": servers})

    def fetch(batches: Iterator[pa.RecordBatch]) -> Iterator[Fetched]:
        reader: RangeReader | None = None
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    at = TopicPartition(row["topic"], row["partition"])
                    split = Split(at, row["first"], row["end"])
                    # A task without splits opens no consumer.
                    reader = reader or RangeReader(consumer_settings(located), split.offsets)
                    for messages in reader.read(split):
                        yield Fetched(at, messages)
        finally:
            if reader is not None:
                reader.close()

    return fetch


def _offsets(records: Fetched) -> pa.Array:
    first, last = records.messages[0].offset(), records.messages[-1].offset()
    if last - first == len(records.messages) - 1:
        return pa.array(np.arange(first, last + 1))
    return pa.array([message.offset() for message in records.messages], pa.int64())


def _times(records: Fetched) -> pa.Array:
    # In milliseconds; -1 if there is none, which Spark takes for a time, too.
    millis = [message.timestamp()[1] for message in records.messages]
    return pa.array(millis, pa.timestamp("ms", "UTC")).cast(TIMESTAMP)


def _headers(records: Fetched) -> pa.Array:
    found = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers]
        for headers in map(headers_of, records.messages)
    ]
    return pa.array(found, _HEADERS.type)


_COLUMNS: dict[str, Callable[[Fetched], pa.Array]] = {
    "key": lambda records: pa.array([each.key() for each in records.messages], pa.binary()),
    "value": lambda records: pa.array([each.value() for each in records.messages], pa.binary()),
    "topic": lambda records: pa.repeat(records.partition.topic, len(records.messages)),
    "partition": lambda records: pa.repeat(
        pa.scalar(records.partition.partition, pa.int32()), len(records.messages)
    ),
    "offset": _offsets,
    "timestamp": _times,
    "headers": _headers,
}
