"""A small pipeline over made-up events: history 0…999 in files, 500…1999 in a topic."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from hybrid_extensions.servers.broker import create_topic
from orchestration.catch_up import wait_until_caught_up
from orchestration.comparison.report import AuditReport
from orchestration.operations import bounded_run, chain_plan, live_run, stopping
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hand_over import hand_over
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import last_launch
from tests.services.processes import wait_for

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
HISTORY = range(1000)
TOPIC = range(500, 2000)
TRANSFORMS = """
from pyspark.sql import functions as F

def identity(rows):
    return rows

def hourly(rows):
    window = F.window("at", "3 hours", "1 hour")
    return (
        rows.withWatermark("at", "1 hour").groupBy(window)
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .select(F.col("window.start").alias("start"), "n", "total")
    )

def number(rows):
    return 17

def held(rows):
    # No row of the topic passes while there is a file `hold` beside this one.
    def wait(batches):
        import time
        from pathlib import Path
        for batch in batches:
            late = any(n >= 1500 for n in batch.column("id").to_pylist())
            while late and Path(__file__).with_name("hold").exists():
                time.sleep(0.05)
            yield batch
    return rows.mapInArrow(wait, rows.schema)
"""
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.defaultJavaOptions": (
        # The code of many queries is more than the 48 MB that such a JVM has by default.
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    ),
}
HOURLY_SQL = """
SELECT to_timestamp(mark * 3600) AS start, count(*) AS n, sum(v) AS total
FROM (SELECT v, unnest([0, 1, 2]) AS back, floor(epoch("at") / 3600) AS hour FROM input)
CROSS JOIN LATERAL (SELECT hour - back AS mark)
GROUP BY ALL
"""


def moment(number: int) -> datetime:
    """Event time of an event."""
    return BEGIN + timedelta(minutes=number)


class Case:
    """One pipeline in a folder of its own, with a topic of its own."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.servers = servers
        self.partitions = partitions
        self.topic = f"events-{uuid.uuid4().hex[:8]}"
        create_topic(servers, self.topic, partitions, {"retention.ms": "-1", **(config or {})})
        (folder / "transforms.py").write_text(TRANSFORMS)
        (folder / "hourly.sql").write_text(HOURLY_SQL)

    def write_history(
        self,
        numbers: Iterable[int] = HISTORY,
        files: int = 4,
        name: Callable[[int, list[int]], str] = lambda at, _: f"{at}.parquet",
    ) -> None:
        """Parquet files in event-time order; ``name`` gets a file's rank and its events."""
        every = list(numbers)
        (self.folder / "in").mkdir(exist_ok=True)
        for at in range(files):
            part = every[at * len(every) // files : (at + 1) * len(every) // files]
            table = pa.table(
                {
                    "id": pa.array(part, pa.int64()),
                    "at": pa.array([moment(n) for n in part], pa.timestamp("us", "UTC")),
                    "v": pa.array([n / 2 for n in part], pa.float64()),
                }
            )
            pq.write_table(table, self.folder / "in" / name(at, part))

    def write_json_history(self, numbers: Iterable[int] = HISTORY) -> None:
        """The same as JSON lines, two files."""
        (self.folder / "in").mkdir(exist_ok=True)
        every = list(numbers)
        for at in range(2):
            lines = [as_json(n) for n in every[at::2]]
            (self.folder / "in" / f"{at}.json").write_text("\n".join(lines) + "\n")

    def produce(
        self,
        numbers: Iterable[int] = TOPIC,
        topic: str | None = None,
        key: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        """Records whose timestamp is the event time; event n goes to partition n mod p."""
        failed: list[Any] = []
        # Without idempotence a retry on a busy machine changes the order.
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for n in numbers:
            producer.produce(
                topic or self.topic,
                as_json(n).encode(),
                key(n),
                partition=n % self.partitions,
                timestamp=int(moment(n).timestamp() * 1000),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(30) == 0
        assert failed == []

    def grow(self, partitions: int) -> None:
        """Give the topic more partitions."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result()
        self.partitions = partitions
        wait_for(
            lambda: len(admin.list_topics(self.topic).topics[self.topic].partitions) == partitions,
            "the new partition",
            30,
        )

    def pipeline(self, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> LoadedPipeline:
        """The declaration, after ``edit``."""
        document: dict[str, Any] = {
            "name": "events",
            "event_time": "at",
            "key": ["id"],
            "allowed_lateness": "100 min",
            "sources": [
                {
                    "name": "history",
                    "type": "files",
                    "path": "in/*.parquet",
                    "format": "parquet",
                    "batch": {"files": 2},
                },
                {
                    "name": "live",
                    "type": "kafka",
                    "topic": self.topic,
                    "bootstrap_servers": self.servers,
                    "trigger_interval": "200 ms",
                },
            ],
            "transform": "transforms:identity",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "spark": {"conf": dict(SMALL)},
        }
        edit(document)
        path = self.folder / "events.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_pipeline(path)


def windows(document: dict[str, Any]) -> None:
    """Turn the pipeline into windows over the seam, updated by key."""
    document["transform"] = "transforms:hourly"
    document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}
    document["audit"] = {"sql": "hourly.sql"}


def history_of(loaded: LoadedPipeline) -> FileSource:
    """The first source."""
    source = loaded.pipeline.sources[0]
    assert isinstance(source, FileSource)
    return source


def live_of(loaded: LoadedPipeline) -> KafkaSource:
    """The last source."""
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def start_live(loaded: LoadedPipeline) -> None:
    """All steps of the chain, by one driver; the stream is left running."""
    chain_plan.plan(loaded)
    for source in loaded.pipeline.sources:
        if isinstance(source, KafkaSource):
            hand_over(PipelineContext.require(loaded), source)
        if source.boundedness is Boundedness.BOUNDED:
            bounded_run.run_bounded(PipelineContext.require(loaded), source, rest_requested=True)
        else:
            live_run.go_live(PipelineContext.require(loaded), source)


def run_through(loaded: LoadedPipeline) -> AuditReport:
    """All steps of the chain until the stream has caught up; it is stopped, and audited."""
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    # Without the extension, only what audits is skipped.
    from hybrid_extensions.audit.run import audit  # noqa: PLC0415

    return audit(loaded)


def steps(result: dg.ExecuteInProcessResult) -> list[str]:
    """The steps of a chain that were materialized, in order."""
    keys = [event.asset_key for event in result.get_asset_materialization_events()]
    return [key.path[-1] for key in keys if key is not None]


def wrong(report: AuditReport) -> dict[str, int]:
    """The counts that must be zero, without those that are."""
    names = ("missing", "duplicated", "different", "unexpected")
    return {name: count for name in names if (count := getattr(report, name))}


def as_json(n: int) -> str:
    """An event as a record's value."""
    return json.dumps({"id": n, "at": f"{moment(n):%Y-%m-%dT%H:%M:%SZ}", "v": n / 2})


def kill_driver(loaded: LoadedPipeline) -> None:
    """The JVM and the driver in it, whatever they are at."""
    launch = last_launch(loaded.require_generation())
    assert launch is not None
    assert launch.group is not None
    os.killpg(launch.group, signal.SIGKILL)
    wait_for(lambda: not live_run.is_live(loaded), "the end of the driver")
