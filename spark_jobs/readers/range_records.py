"""Tasks that read ranges of a topic's offsets with a consumer of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from sources.common.positions import TopicPartition
from sources.common.schema import TIMESTAMP
from sources.config.kafka_source import KafkaSource
from sources.kafka.address import resolve_bootstrap
from sources.kafka.consumer import consumer_settings
from sources.kafka.range_reader import RangeReader
from sources.kafka.ranges import Split
from spark_jobs.readers.spark_errors import Step, reporting

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


def columns_of(source: KafkaSource) -> pa.Schema:
    """Return the columns of a source's records; headers only if they are included, as in Spark."""
    return RECORDS.append(_HEADERS) if "headers" in source.include.values() else RECORDS


_SPLITS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("first", pa.int64()), ("end", pa.int64())]
)


def as_rows(splits: Sequence[Split]) -> pa.RecordBatch:
    """Return splits as :func:`range_reader` takes them."""
    rows = [
        {"topic": topic, "partition": number, "first": each.first, "end": each.end}
        for each in splits
        for topic, number in [each.partition]
    ]
    return pa.RecordBatch.from_pylist(rows, _SPLITS)


def can_read(source: KafkaSource, spark: SparkSession) -> bool:
    """Return whether tasks can log in to a source's broker, wherever they run.

    Files of certificates, and the identity that AWS knows, are those of the driver's machine.

    Args:
        source: The declaration.
        spark: The Spark session.
    """
    security = source.security
    is_local = str(spark.sparkContext.master).startswith("local")
    return is_local or security is None or not (security.needs_files or security.region)


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
    columns = columns_of(source)

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
