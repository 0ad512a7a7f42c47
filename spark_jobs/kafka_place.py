"""The Kafka source inside Spark: explicit start offsets, values parsed, bad records refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.types import from_arrow_schema

from sources.kafka import resolve_bootstrap
from sources.pipeline import KafkaSource
from sources.schema import ddl

# Columns of the log that travel with a parsed row until the seam is passed.
PARTITION, OFFSET = "__partition", "__offset"
_CORRUPT = "__corrupt"
_EARLIEST = -2


def stream_topic(spark: SparkSession, source: KafkaSource, starts: Mapping[int, int]) -> DataFrame:
    """The topic as a stream of raw records.

    Args:
        spark: The session.
        source: The declaration.
        starts: Start offset of each partition of the topic; -2 for its log start. Spark heeds
            them only when the checkpoint has never read this topic.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", resolve_bootstrap(source.bootstrap_servers))
        .option("subscribe", source.topic)
        .option("startingOffsets", _offsets_json(source.topic, starts))
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", source.max_offsets_per_batch)
        .load()
    )


def read_topic(
    spark: SparkSession, source: KafkaSource, starts: Mapping[int, int], ends: Mapping[int, int]
) -> DataFrame:
    """A range of the topic as a batch of raw records; partitions without a range are left out."""
    wanted = sorted(number for number in starts if starts[number] < ends[number])
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", resolve_bootstrap(source.bootstrap_servers))
        .option("assign", json.dumps({source.topic: wanted}))
        .option("startingOffsets", _offsets_json(source.topic, {n: starts[n] for n in wanted}))
        .option("endingOffsets", _offsets_json(source.topic, {n: ends[n] for n in wanted}))
        .option("failOnDataLoss", "true")
        .load()
    )


def parse_values(raw: DataFrame, columns: pa.Schema) -> DataFrame:
    """The columns of each record's JSON value, with :data:`PARTITION` and :data:`OFFSET`.

    A value that is no JSON object, or does not fit its columns, fails the query with topic,
    partition and offset: Spark itself would turn it into nulls.
    """
    schema = f"{ddl(columns)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = raw.select(
        F.col("topic"),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        F.from_json(F.col("value").cast("string"), schema, options).alias("row"),
    )
    row_type = from_arrow_schema(columns)
    good = F.struct(*(F.col("row")[name].alias(name) for name in columns.names))
    is_bad = F.col("row").isNull() | F.col("row")[_CORRUPT].isNotNull()
    refused = F.raise_error(_bad_record()).cast(row_type)
    checked = parsed.select(
        F.col(PARTITION), F.col(OFFSET), F.when(is_bad, refused).otherwise(good).alias("row")
    )
    return checked.select(PARTITION, OFFSET, "row.*")


def _bad_record() -> Column:
    return F.concat(
        F.lit("BAD_RECORD: topic `"),
        F.col("topic"),
        F.lit("`, partition "),
        F.col(PARTITION),
        F.lit(", offset "),
        F.col(OFFSET),
        F.lit(": the value is no JSON object with the declared columns."),
    )


def with_new_partitions(starts: Mapping[int, int], partitions: list[int]) -> dict[int, int]:
    """Start offsets for all partitions: one that appeared meanwhile starts at its beginning."""
    return {**dict.fromkeys(partitions, _EARLIEST), **starts}


def _offsets_json(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(number): at for number, at in offsets.items()}})
