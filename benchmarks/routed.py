"""Benchmark: one query for all tables, routed to a MERGE for each, or a query for each table.

    python -m benchmarks.routed --tables 10

Plain Spark, without the project's own queries: what the two designs cost by themselves. Each table
gets a change a second; it is merged by key into a Delta table. Freshness is the time from when a
change was produced to the end of the MERGE that has it. Every change has to be in its table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.processes import cpu_s_of, memory_mb_of
from benchmarks.record import record
from benchmarks.session import jvm_pid
from services.broker import LocalBroker, create_topic
from spark_jobs.jvm.jars import resolve

_KEYS = 100
_AT_ONCE = 4
_INTERVAL = "1 second"
_WARM_UP_S = 20
_PATIENCE_S = 120.0
_ROW = "id BIGINT, v BIGINT, at_ms BIGINT"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    ways: dict[str, Callable[[_Tables], list[StreamingQuery]]] = {
        "one for each table": _Tables.by_own_queries,
        "one for all": _Tables.by_one_query,
    }
    result: dict[str, Any] = {"tables": options.tables, "seconds": options.seconds, "ways": {}}
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        spark = _session(Path(name))
        for number, (way, start) in enumerate(ways.items()):
            tables = _Tables(spark, Path(name) / str(number), broker, options.tables)
            result["ways"][way] = tables.measure(start(tables), options.seconds)
            sys.stdout.write(f"{way}: {json.dumps(result['ways'][way])}\n")
        spark.stop()
    record("routed", result)


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    delta = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    settings = {
        "spark.jars": ",".join(map(str, resolve("spark"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": delta,
        "spark.sql.shuffle.partitions": "1",
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.local.dir": str(folder / "spark"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class _Tables:
    """Tables that are fed and merged in one of the two ways.

    Args:
        spark: The session.
        folder: Folder of tables and checkpoints.
        broker: The broker.
        count: Number of tables.
    """

    def __init__(self, spark: SparkSession, folder: Path, broker: LocalBroker, count: int) -> None:
        self._spark = spark
        self._folder = folder
        self._servers = broker.bootstrap_servers
        self._topics = [f"way{folder.name}-table{number}" for number in range(count)]
        self._lock = threading.Lock()
        self._waited_s: list[float] = []
        self._merges = 0
        for topic in self._topics:
            create_topic(self._servers, topic, 1, {"retention.ms": "-1"})
            nothing = spark.createDataFrame([], _ROW)
            nothing.write.format("delta").save(str(folder / topic))

    def by_own_queries(self) -> list[StreamingQuery]:
        """Start a query for each table."""

        def write_to(topic: str) -> Callable[[DataFrame, int], None]:
            return lambda batch, _: self._merge(batch, topic)

        return [self._query([topic], write_to(topic)) for topic in self._topics]

    def by_one_query(self) -> list[StreamingQuery]:
        """Start one query for all, which merges into several tables at a time."""

        def route(batch: DataFrame, _: int) -> None:
            batch = batch.persist()
            topics = [row["topic"] for row in batch.select("topic").distinct().collect()]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                parts = {topic: batch.where(F.col("topic") == topic) for topic in topics}
                list(pool.map(lambda topic: self._merge(parts[topic], topic), topics))
            batch.unpersist()

        return [self._query(self._topics, route)]

    def measure(self, queries: list[StreamingQuery], seconds: int) -> dict[str, Any]:
        """Feed the tables, first to warm up; return freshness, CPU and memory of what came then.

        Raises:
            RuntimeError: A table lacks a change.
        """
        self._feed(0, _WARM_UP_S)
        self._require(_WARM_UP_S)
        self._waited_s, self._merges = [], 0
        pids = [os.getpid(), jvm_pid(self._spark)]
        cpu, begun = cpu_s_of(pids), time.monotonic()
        self._feed(_WARM_UP_S, seconds)
        self._require(_WARM_UP_S + seconds)
        passed = time.monotonic() - begun
        used = cpu_s_of(pids) - cpu
        found = sorted(self._waited_s)
        memory = memory_mb_of(pids)
        for query in queries:
            query.stop()
        return {
            "freshness s, median": round(statistics.median(found), 2),
            "freshness s, p90": round(found[int(len(found) * 0.9)], 2),
            "merges": self._merges,
            "cpu, % of a core": round(used / passed * 100),
            "memory MB": memory,
        }

    def _query(self, topics: list[str], write: Callable[[DataFrame, int], None]) -> StreamingQuery:
        rows = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest")
            .load()
        )
        parsed = rows.select("topic", F.from_json(F.col("value").cast("string"), _ROW).alias("row"))
        checkpoint = self._folder / "checkpoints" / "-".join(topics[:2])
        return (
            parsed.select("topic", "row.*")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=_INTERVAL)
            .start()
        )

    def _merge(self, changes: DataFrame, topic: str) -> None:
        newest = changes.groupBy("id").agg(F.max_by("v", "at_ms").alias("v"), F.max("at_ms"))
        newest = newest.withColumnRenamed("max(at_ms)", "at_ms")
        times = [row[0] for row in changes.select("at_ms").collect()]
        newest.createOrReplaceTempView(view := f"changes_{topic.replace('-', '_')}")
        newest.sparkSession.sql(
            f"MERGE INTO delta.`{self._folder / topic}` t USING {view} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        now_ms = time.time() * 1000
        with self._lock:
            self._waited_s += [(now_ms - at_ms) / 1000 for at_ms in times]
            self._merges += 1

    def _feed(self, first: int, seconds: int) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        for number in range(first, first + seconds):
            for topic in self._topics:
                row = {"id": number % _KEYS, "v": number, "at_ms": round(time.time() * 1000)}
                producer.produce(topic, json.dumps(row))
            producer.flush()
            time.sleep(1)

    def _require(self, changes: int) -> None:
        """Wait until each table has the last change; a table that never gets it is an error."""
        deadline = time.monotonic() + _PATIENCE_S
        for topic in self._topics:
            while _highest(self._folder / topic) != changes - 1:
                if time.monotonic() > deadline:
                    message = f"The table of {topic} lacks changes."
                    raise RuntimeError(message)
                time.sleep(0.2)


def _highest(path: Path) -> int | None:
    values = DeltaTable(str(path)).to_pyarrow_table(columns=["v"])["v"].to_pylist()
    return max(values, default=None)


if __name__ == "__main__":
    main()
