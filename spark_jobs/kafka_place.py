"""The Kafka source inside Spark: explicit start offsets, values parsed, bad records refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.types import from_arrow_schema

from sources.address import resolve_bootstrap
from sources.kafka_source import KafkaSource
from sources.positions import Offsets, TopicPartition, nest
from sources.schema import ddl
from sources.security import spark_settings

# Columns of the log that travel with a parsed row until the seam is passed.
TOPIC, PARTITION, OFFSET = LOG_COLUMNS = ("__topic", "__partition", "__offset")
_CORRUPT = "__corrupt"
_EARLIEST = -2


def stream_topics(spark: SparkSession, source: KafkaSource, starts: Offsets) -> DataFrame:
    """The topics as a stream of raw records.

    Args:
        spark: The session.
        source: The declaration.
        starts: Start offset of each partition there is; -2 for its log start. Spark heeds them
            only when the checkpoint has never read these topics.
    """
    subscription = ("subscribe", ",".join(source.topics))
    if source.topic_pattern is not None:
        subscription = ("subscribePattern", source.topic_pattern)
    return (
        spark.readStream.format("kafka")
        .options(**_client(source))
        .option(*subscription)
        .option("startingOffsets", _offsets_json(starts))
        .option("maxOffsetsPerTrigger", source.max_offsets_per_batch)
        .load()
    )


def read_topics(
    spark: SparkSession, source: KafkaSource, starts: Offsets, ends: Offsets
) -> DataFrame | None:
    """A range of the topics as a batch of raw records; None if there is nothing in it."""
    wanted = sorted(at for at in starts if starts[at] < ends.get(at, 0))
    if not wanted:
        return None
    assigned = {topic: sorted(parts) for topic, parts in nest(dict.fromkeys(wanted, 0)).items()}
    return (
        spark.read.format("kafka")
        .options(**_client(source))
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", _offsets_json({at: starts[at] for at in wanted}))
        .option("endingOffsets", _offsets_json({at: ends[at] for at in wanted}))
        .load()
    )


def _client(source: KafkaSource) -> dict[str, str]:
    return {
        **spark_settings(source.security),
        "kafka.bootstrap.servers": resolve_bootstrap(source.bootstrap_servers),
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": "true",
    }


def parse_values(raw: DataFrame, columns: pa.Schema) -> DataFrame:
    """The columns of each record's JSON value, with :data:`LOG_COLUMNS`.

    A value that is no JSON object, or does not fit its columns, fails the query with topic,
    partition and offset: Spark itself would turn it into nulls.
    """
    schema = f"{ddl(columns)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = raw.select(
        F.col("topic").alias(TOPIC),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        F.from_json(F.col("value").cast("string"), schema, options).alias("row"),
    )
    row_type = from_arrow_schema(columns)
    good = F.struct(*(F.col("row")[name].alias(name) for name in columns.names))
    is_bad = F.col("row").isNull() | F.col("row")[_CORRUPT].isNotNull()
    refused = F.raise_error(_bad_record()).cast(row_type)
    checked = parsed.select(*LOG_COLUMNS, F.when(is_bad, refused).otherwise(good).alias("row"))
    return checked.select(*LOG_COLUMNS, "row.*")


def _bad_record() -> Column:
    return F.concat(
        F.lit("BAD_RECORD: topic `"),
        F.col(TOPIC),
        F.lit("`, partition "),
        F.col(PARTITION),
        F.lit(", offset "),
        F.col(OFFSET),
        F.lit(": the value is no JSON object with the declared columns."),
    )


def with_new_partitions(
    starts: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> Offsets:
    """Start offsets for all partitions: one that appeared meanwhile starts at its beginning."""
    return {**dict.fromkeys(partitions, _EARLIEST), **starts}


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps(nest(offsets))
