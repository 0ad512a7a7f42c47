"""A topic of JSON that benchmarks read, and the pipeline that declares it."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer

from services.broker import create_topic
from sources.document import LoadedPipeline
from sources.pipeline import Pipeline

TOPIC = "bench"
PARTITIONS = 4
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}


def produce(servers: str, rows: int) -> None:
    """Make the topic, with some 80 bytes of JSON a record, each partition as long as the others."""
    create_topic(servers, TOPIC, PARTITIONS, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for n in range(rows):
        at = f"2024-01-{1 + n % 28:02}T00:00:00Z"
        value = {"id": n, "at": at, "user": f"user{n % 1000}", "value": n * 0.5}
        while True:
            try:
                producer.produce(TOPIC, json.dumps(value).encode(), partition=n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def topic_pipeline(folder: Path, servers: str) -> LoadedPipeline:
    """The topic alone, to its end."""
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [
                {
                    "type": "kafka",
                    "name": "archive",
                    "topic": TOPIC,
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
