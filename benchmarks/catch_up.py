"""Benchmark: read a whole topic into a Delta table, by the project's stream and by plain Spark.

    python -m benchmarks.catch_up --rows 4000000 --rounds 6
    python -m benchmarks.catch_up --format avro
    python -m benchmarks.catch_up --format protobuf
    python -m benchmarks.catch_up --profile

Plain Spark is what one writes without the project: its Kafka source with ``from_json`` or
``from_avro``; for Protobuf a Python function with the message's class, because Spark's Protobuf
module for this version is in no repository. Prints rows/s of each round and the ratio of the
medians. ``--profile`` prints instead what the tasks of each contender spend their time on, sampled
by the JVM's Flight Recorder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.avro.functions import from_avro

from benchmarks.flight_recorder import profile
from benchmarks.record import record
from benchmarks.session import jvm_pid, place, plain_topic, race, report, session, write_to_delta
from benchmarks.topics import (
    COLUMNS,
    SCHEMA,
    TOPIC,
    Form,
    event_class,
    produce,
    topic_pipeline,
)
from hybrid_extensions.servers.broker import LocalBroker
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import stream_topics, with_new_partitions
from spark_jobs.inside.readers.topics.parse_records import parse_values
from spark_jobs.jvm.jar_sets import JarSet, excludes
from spark_jobs.jvm.jars import obtain

# Not among PySpark's own jars; the newest version in the repositories.
_AVRO = JarSet(
    packages=("org.apache.spark:spark-avro_2.13:4.1.1",),
    excludes=tuple(excludes("spark").split(",")),
)
# Prefixes of class names, by stage of the work.
STAGES = {
    "parsing JSON": ("com.fasterxml.jackson", "org.apache.spark.sql.catalyst.json"),
    "exchanging rows with Python": ("org.apache.spark.sql.execution.python", "org.apache.arrow"),
    "reading from Kafka": ("org.apache.kafka", "org.apache.spark.sql.kafka010"),
    "writing Parquet": (
        "org.apache.parquet",
        "org.apache.spark.sql.execution.datasources",
        "org.apache.spark.sql.delta",
    ),
    "rows and expressions": ("org.apache.spark.sql",),
}
_PLAIN = {"json": "from_json", "avro": "from_avro", "protobuf": "Python function"}
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--format", choices=["json", "avro", "protobuf"], default="json")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="run on a standalone cluster: a master and two workers",
    )
    parser.add_argument(
        "--profile", action="store_true", help="print a CPU profile instead of rows/s"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name,
        LocalBroker() as broker,
        place(options.cluster, Path(name)) as where,
    ):
        folder, servers = Path(name), broker.bootstrap_servers
        produce(servers, options.rows, options.format)
        loaded = topic_pipeline(folder, servers, where, options.format)
        (source,) = loaded.pipeline.topics
        extra_jars = obtain("bench-avro", _AVRO) if options.format == "avro" else []
        spark = session(loaded, folder, extra_jars)
        contenders: dict[str, Callable[[], DataFrame]] = {
            "project": partial(project_topic, spark, loaded, source),
            _PLAIN[options.format]: partial(_plain_spark, spark, servers, options.format),
        }
        if options.profile:
            _profile(contenders, jvm_pid(spark), folder / "out", options.format)
            return
        speeds = race(contenders, options.rounds, options.rows, folder / "out")
        spark.stop()
    name = f"catch-up-{options.format}{'-cluster' * options.cluster}"
    report(name, speeds, "project", options.rows)


def _profile(
    contenders: Mapping[str, Callable[[], DataFrame]], pid: int, target: Path, form: Form
) -> None:
    """Profile one run of each contender, after a warm-up run of each; record and print it.

    Args:
        contenders: By name, a function that returns the rows to write.
        pid: Process id of the JVM.
        target: Path of the Delta table, which is removed afterwards.
        form: Format of the topic.
    """
    for read in contenders.values():
        write_to_delta(read, target)
    profiles = {
        name: asdict(profile(pid, partial(write_to_delta, read, target), STAGES))
        for name, read in contenders.items()
    }
    record(f"profile-catch-up-{form}", profiles)
    sys.stdout.write(f"{json.dumps(profiles, indent=1)}\n")


def project_topic(spark: SparkSession, loaded: LoadedPipeline, source: KafkaSource) -> DataFrame:
    """Return the topic's rows as the project streams and parses them."""
    generation = loaded.open_generation(create=True)
    assert generation is not None
    starts = with_new_partitions({}, KafkaLog(source).partitions)
    raw = stream_topics(spark, source, starts, source.max_offsets_per_batch)
    columns = parse_schema(COLUMNS)
    event_time = EventTimeCheck(loaded.pipeline.event_time)
    return parse_values(raw, source, COLUMNS, generation, event_time).select(*columns.names)


def _plain_spark(spark: SparkSession, servers: str, form: Form) -> DataFrame:
    """Return the topic's rows as Spark's Kafka source streams them, parsed by Spark."""
    raw = plain_topic(spark, servers, TOPIC)
    if form == "avro":
        row = from_avro("value", json.dumps(SCHEMA))
    elif form == "protobuf":
        row = F.udf(_event, _DDL)("value")
    else:
        row = F.from_json(F.col("value").cast("string"), _DDL)
    return raw.select(row.alias("row")).select("row.*")


def _event(value: bytes) -> tuple[Any, ...]:
    """Return the columns of a Protobuf record."""
    event = event_class().FromString(value)
    return event.id, event.at.ToDatetime(UTC), event.user, event.value


if __name__ == "__main__":
    main()
