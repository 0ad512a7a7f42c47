"""Benchmark: how long a record takes from its producer's clock to the commit of its row.

    python -m benchmarks.latency --rates 1000 10000 50000 150000 --seconds 600

The project's live run, and the same work as one writes it with Spark alone: the Kafka source,
``from_json`` and Delta, in a driver with the same cores and memory. Each has the machine, with
broker and producer, for itself. The latency of a row is the time of its Delta commit less the time
that the producer wrote into the record; rows of the first seconds are not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml

from benchmarks.processes import cpu_s_of, end_all, memory_mb_of, processes_of, processes_under
from benchmarks.record import record
from benchmarks.session import HERE, plain_topic, session
from benchmarks.topics import PARTITIONS
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.operations import live_run
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.launch.launch_record import last_launch

COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "sent_us": "bigint"}
_WARM_UP_S = 20.0
_PATIENCE_S = 300.0
_TRIGGER = "1 second"
_TRANSFORM = "def identity(rows):\n    return rows\n"
# The process ids of a contender, once it follows its topic.
Pids = Callable[[], list[int]]


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000, 50_000, 150_000])
    parser.add_argument("--seconds", type=float, default=600.0, help="for each rate and contender")
    parser.add_argument("--plain", metavar="FILE", help="follow the topic of a pipeline, by Spark")
    options = parser.parse_args()
    if options.plain:
        _follow_by_spark(load_pipeline(Path(options.plain)))
        return
    contenders = {"project": _by_project, "plain Spark": _by_plain_spark}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for rate in options.rates:
        for name, follow in contenders.items():
            found[name].append(_measured(follow, rate, options.seconds))
            sys.stdout.write(f"{name}: {json.dumps(found[name][-1])}\n")
            sys.stdout.flush()
    record("latency", {"seconds": options.seconds, "rates": found})


def _measured(follow: Any, rate: int, seconds: float) -> dict[str, Any]:
    """Let a contender follow a topic of its own, and return what its latency and its work were."""
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        loaded = _pipeline(Path(name), broker.bootstrap_servers)
        _feed(broker.bootstrap_servers, 100, 1.0)
        with follow(loaded) as pids:
            _wait_for_commit(loaded)
            since_us = round((time.time() + _WARM_UP_S) * 1e6)
            cpu, begun = cpu_s_of(pids()), time.monotonic()
            fed = _feed(broker.bootstrap_servers, rate, _WARM_UP_S + seconds)
            latency, commits = _latencies(loaded, since_us, round(fed["records"]) + 100)
            cores = (cpu_s_of(pids()) - cpu) / (time.monotonic() - begun)
            memory = memory_mb_of(pids())
    return {
        "rate": rate,
        "written per s": round(fed["records"] / fed["seconds"]),
        "rows": len(latency),
        "mean s": round(float(latency.mean()), 3),
        "p50 s": round(float(np.percentile(latency, 50)), 3),
        "p99 s": round(float(np.percentile(latency, 99)), 3),
        "worst s": round(float(latency.max()), 3),
        "commits": commits,
        "cores": round(cores, 2),
        "memory MB": memory,
    }


def _pipeline(folder: Path, servers: str) -> LoadedPipeline:
    """Create a topic, and the file of a pipeline that follows it."""
    create_topic(servers, "bench", PARTITIONS, {"retention.ms": "-1"})
    (folder / "transforms.py").write_text(_TRANSFORM)
    document = {
        "name": "bench",
        "event_time": "at",
        "sources": [
            {
                "type": "kafka",
                "name": "live",
                "topic": "bench",
                "bootstrap_servers": servers,
                "start": "earliest",
                "schema": COLUMNS,
            }
        ],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "spark": HERE,
    }
    path = folder / "bench.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)


@contextmanager
def _by_project(loaded: LoadedPipeline) -> Iterator[Pids]:
    """Follow the topic by the project's live run."""
    (topic,) = loaded.pipeline.topics
    make_plan(loaded)
    hand_over(PipelineContext.require(loaded), topic)
    live_run.go_live(PipelineContext.require(loaded), topic)
    launch = last_launch(loaded.require_generation())
    assert launch is not None
    assert launch.group is not None
    group = launch.group
    try:
        yield lambda: processes_of({group})
    finally:
        end_all([loaded])


@contextmanager
def _by_plain_spark(loaded: LoadedPipeline) -> Iterator[Pids]:
    """Follow the topic by Spark alone, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.latency", "--plain", str(loaded.path)]
    with (loaded.path.parent / "plain.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield lambda: sorted(processes_under(process.pid))
    finally:
        process.terminate()
        process.wait()


def _follow_by_spark(loaded: LoadedPipeline) -> None:
    """Follow the topic of a pipeline as one writes it without the project, until ended."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - for this contender alone

    (topic,) = loaded.pipeline.topics
    folder = loaded.path.parent
    spark = session(loaded, folder)
    raw = plain_topic(spark, topic.bootstrap_servers, "bench")
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    rows = raw.select(F.from_json(F.col("value").cast("string"), ddl).alias("row")).select("row.*")
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "plain"))
    writer.trigger(processingTime=_TRIGGER).start(loaded.target.url).awaitTermination()


def _feed(servers: str, rate: int, seconds: float) -> dict[str, float]:
    """Write records at a rate, by a process of its own; return how many, and in which time."""
    command = [sys.executable, "-m", "benchmarks.paced", servers, "bench", str(rate), str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    fed: dict[str, float] = json.loads(done.stdout)
    return fed


def _wait_for_commit(loaded: LoadedPipeline) -> None:
    """Wait until the first rows are in the table.

    Raises:
        TimeoutError: There are none after 300 s.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while not any(_added(loaded)):
        if time.monotonic() > deadline:
            message = f"No row was committed within {_PATIENCE_S:.0f} s."
            raise TimeoutError(message)
        time.sleep(0.2)


def _latencies(loaded: LoadedPipeline, since_us: int, total: int) -> tuple[Any, int]:
    """Return the latency of each row, in seconds, and the number of commits, once all are there.

    Args:
        loaded: The pipeline.
        since_us: Rows that were sent before are left out, in microseconds since 1970.
        total: Number of records in the topic.

    Raises:
        TimeoutError: Rows are missing 300 s after the last record was written.
        ValueError: There are more rows than records.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while (rows := sum(rows for _, _, rows in _added(loaded))) != total:
        if rows > total or time.monotonic() > deadline:
            message = f"The table has {rows} rows of {total} records."
            raise ValueError(message) if rows > total else TimeoutError(message)
        time.sleep(1)
    parts, commits = [], set()
    for file, committed, _ in _added(loaded):
        sent = pq.read_table(file, columns=["sent_us"])["sent_us"].to_numpy()
        counted = sent[sent >= since_us]
        parts.append(committed - counted / 1e6)
        commits |= {committed} if len(counted) else set()
    return np.concatenate(parts), len(commits)


def _added(loaded: LoadedPipeline) -> Iterator[tuple[Path, float, int]]:
    """Yield each file of the table, when it was committed (s since 1970), and its rows."""
    folder = Path(loaded.target.url)
    for path in sorted((folder / "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            if (add := json.loads(line).get("add")) is not None:
                rows = json.loads(add["stats"])["numRecords"]
                yield folder / add["path"], path.stat().st_mtime, rows


if __name__ == "__main__":
    main()
