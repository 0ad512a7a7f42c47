"""Values of a topic as a run reads them, without a broker: at the level of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET
from spark_jobs.inside.readers.topics.parse_records import parse_values


def read_records(
    spark: SparkSession,
    folder: Path,
    values: Sequence[bytes],
    columns: Mapping[str, str],
    on_bad_record: str = "drop",
) -> dict[int, dict[str, Any]]:
    """Return the rows of the records that are not bad, by their place among the values."""
    rows = parsed_records(spark, folder, values, columns, on_bad_record)
    found = rows.select(OFFSET, *columns).toArrow().to_pylist()
    return {row.pop(OFFSET): row for row in found}


def parsed_records(
    spark: SparkSession,
    folder: Path,
    values: Sequence[bytes],
    columns: Mapping[str, str],
    on_bad_record: str,
    outside: str = "fail",
) -> DataFrame:
    """Return the records as the transform gets them: their columns, and event time ``at``."""
    kinds = {**columns, "at": "timestamp"}
    live = {"type": "kafka", "name": "live", "topic": "t", "start": "earliest", "format": "json"}
    source = KafkaSource.model_validate({**live, "schema": kinds, "on_bad_record": on_bad_record})
    declared = {
        "name": "p",
        "event_time": {"column": "at", "outside": outside},
        "key": ["at"],
        "transform": "t:t",
        "state": "s",
    }
    sink = {"path": "out", "mode": "append", "key": ["at"]}
    pipeline = Pipeline.model_validate({**declared, "sink": sink, "sources": [source]})
    loaded = LoadedPipeline(folder / "p.yaml", pipeline)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    count = len(values)
    raw = pa.table(
        {
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    event_time = EventTimeCheck(pipeline.event_time)
    return parse_values(spark.createDataFrame(raw), source, kinds, generation, event_time)
