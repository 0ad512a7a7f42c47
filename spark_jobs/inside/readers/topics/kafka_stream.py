"""Spark's Kafka source: start offsets, new partitions, patterns, client options, lost records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from sources.common.durations import span_ms
from sources.common.login.security import spark_settings
from sources.common.positions import Offsets, TopicPartition, nest
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.address import resolve_bootstrap

# Columns of the log that a parsed row carries until the seam is passed.
TOPIC, PARTITION, OFFSET = LOG_COLUMNS = ("__topic", "__partition", "__offset")
_EARLIEST = -2
_POLL_RECORDS = 20_000


def stream_topics(
    spark: SparkSession,
    source: KafkaSource,
    starts: Offsets,
    max_offsets: int,
    through: tuple[str, Mapping[str, str]] = ("kafka", {}),
) -> DataFrame:
    """Return a source's topics as a stream of raw records, read by Spark's Kafka source.

    The query fails if records to be read were deleted (``failOnDataLoss``).

    Args:
        spark: The Spark session.
        source: The declaration.
        starts: Start offset of each existing partition; -2 for its log start; empty for the log
            start of all. Spark uses them only if the checkpoint has never read these topics.
        max_offsets: Highest number of offsets in one micro-batch, all partitions together.
        through: Spark's name of the source, and options of its own.

    Raises:
        InputError: A file of ``security`` can't be read or contains no certificate or key in PEM,
            or its encryption contradicts ``key_password``.
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    name, options = through
    return (
        spark.readStream.format(name)
        .options(**client_options(source), **options)
        .option(*_subscription(source))
        # Of no partition, so that one which appears before Spark's first look is none too many.
        .option("startingOffsets", _offsets_json(starts) if starts else "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .load()
    )


def _subscription(source: KafkaSource) -> tuple[str, str]:
    """Return the option that names the topics of a stream, and its value."""
    if source.topic_pattern is not None:
        # Spark looks for it anywhere in a name. What `KafkaLog` leaves out is left out here, too.
        return "subscribePattern", f"^(?!__)(?:{source.topic_pattern})$"
    if source.waits_for_topic:
        # By names Spark asks for all of them, and fails where one does not exist yet.
        return "subscribePattern", f"^(?:{'|'.join(map(re.escape, source.topics))})$"
    return "subscribe", ",".join(source.topics)


def read_topics(
    spark: SparkSession, source: KafkaSource, starts: Offsets, ends: Offsets
) -> DataFrame | None:
    """Return a range of offsets of a source's topics as a batch of raw records.

    Args:
        spark: The Spark session.
        source: The declaration.
        starts: First offset of each partition.
        ends: First offset beyond the range, by partition; others are not read.

    Returns:
        None if the range is empty in all partitions.

    Raises:
        InputError: A file of ``security`` can't be read or contains no certificate or key in PEM,
            or its encryption contradicts ``key_password``.
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    partitions = sorted(at for at in starts if starts[at] < ends.get(at, 0))
    if not partitions:
        return None
    assigned = {
        topic: sorted(numbers) for topic, numbers in nest(dict.fromkeys(partitions, 0)).items()
    }
    return (
        spark.read.format("kafka")
        .options(**client_options(source))
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", _offsets_json({at: starts[at] for at in partitions}))
        .option("endingOffsets", _offsets_json({at: ends[at] for at in partitions}))
        .load()
    )


def client_options(source: KafkaSource) -> dict[str, str]:
    """Return the options for the client of Spark's Kafka source; secrets are in plain text.

    Raises:
        InputError: A file of ``security`` can't be read or contains no certificate or key in PEM,
            or its encryption contradicts ``key_password``.
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    return {
        **{f"kafka.{name}": value for name, value in source.properties.of_java.items()},
        **spark_settings(source.security),
        "kafka.bootstrap.servers": resolve_bootstrap(source.bootstrap_servers),
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": "true",
        # With each poll Spark asks the broker where the log begins and ends: for 500 records,
        # Kafka's default, that takes longer than reading them.
        "kafka.max.poll.records": str(_POLL_RECORDS),
        # Spark reads records that it knows to exist, but its consumer fetches ahead. The broker
        # holds that request for so long, and behind it the next one of the same connection.
        "kafka.fetch.max.wait.ms": str(span_ms(source.fetch_max_wait)),
        "includeHeaders": str("headers" in source.include.values()).lower(),
    }


def with_new_partitions(
    starts: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> Offsets:
    """Return start offsets of all partitions of a topic, also of those created since the hand-over.

    Args:
        starts: Start offsets decided at the hand-over.
        partitions: All partitions that exist now.

    Returns:
        The decided offsets, and -2 (Spark's word for the beginning) for each other partition.
    """
    return {**dict.fromkeys(partitions, _EARLIEST), **starts}


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps(nest(offsets))
