"""A bounded topic to Delta: the project's ranges against Spark's own Kafka stream, in turn.

    python -m benchmarks.topic_range --rows 2000000 --rounds 6

Prints rows/s of each round and the ratio of the medians. Also how fast one process reads records
without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from benchmarks.session import in_turns, report, session, write_to_delta
from services.broker import LocalBroker, create_topic
from sources.document import LoadedPipeline
from sources.hand_over import hand_over
from sources.kafka import consumer_settings
from sources.pipeline import Pipeline
from sources.plan import make_plan
from sources.positions import TopicPartition
from sources.range_cut import Split
from sources.range_reader import RangeReader
from sources.schema import parse_schema
from sources.topic_range import require_range
from spark_jobs.kafka_place import stream_topics
from spark_jobs.planned_topic import PlannedTopic
from spark_jobs.values import parse_values

PARTITIONS = 4
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder = Path(name)
        _produce(broker.bootstrap_servers, options.rows)
        loaded = _pipeline(folder, broker.bootstrap_servers)
        make_plan(loaded)
        (source,) = loaded.pipeline.topics
        hand_over(loaded, source)
        generation = loaded.require_generation()
        found = require_range(generation, source.name)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        started = time.monotonic()
        reader = RangeReader(consumer_settings(source))
        at = TopicPartition("bench", 0)
        count = sum(len(part) for part in reader.read(Split(at, 0, found.ends[at])))
        reader.close()
        speed = count / (time.monotonic() - started)
        sys.stdout.write(f"one reader, without Spark: {speed:,.0f} rows/s\n")
        spark = session(loaded, folder)
        columns = parse_schema(COLUMNS)
        planned = PlannedTopic(source, found, generation, COLUMNS)
        planned.prepare()
        contenders: dict[str, Callable[[], DataFrame]] = {
            "project": lambda: planned.stream(spark).select(*columns.names),
            "plain": lambda: parse_values(
                stream_topics(spark, source, found.starts, source.max_offsets_per_batch),
                source,
                COLUMNS,
                generation,
            ).select(*columns.names),
        }
        speeds: dict[str, list[float]] = {name: [] for name in contenders}
        for round_ in range(options.rounds + 1):  # the first one warms up
            for contender in in_turns(list(contenders), round_):
                speed = options.rows / write_to_delta(contenders[contender], folder / "out")
                if round_:
                    speeds[contender].append(speed)
        spark.stop()
    report("topic_range", speeds, "project", options.rows)


def _produce(servers: str, rows: int) -> None:
    create_topic(servers, "bench", PARTITIONS, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for n in range(rows):
        at = f"2024-01-{1 + n % 28:02}T00:00:00Z"
        value = {"id": n, "at": at, "user": f"user{n % 1000}", "value": n * 0.5}
        while True:
            try:
                producer.produce("bench", json.dumps(value).encode(), partition=n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def _pipeline(folder: Path, servers: str) -> LoadedPipeline:
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [
                {
                    "type": "kafka",
                    "name": "archive",
                    "topic": "bench",
                    "bootstrap_servers": servers,
                    "start": "earliest",
                    "until": "latest",
                    "schema": COLUMNS,
                }
            ],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "spark": {"driver_memory": "4g", "conf": {"spark.ui.enabled": "false"}},
        }
    )
    return LoadedPipeline(folder / "bench.yaml", pipeline)


if __name__ == "__main__":
    main()
