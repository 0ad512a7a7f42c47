"""Benchmark: time from history's last commit to the first live micro-batch, warm and cold.

    python -m benchmarks.switch

Runs chains over the same files and topic, each with a separate state folder. Measures until the
live micro-batch begins (its offsets are written) and until it is committed. ``plain`` is the start
of Spark alone: a script that follows the topic into a Delta table, measured from its launch. For a
cold switch, the end of each step is measured too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer

from benchmarks.record import record
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.cli import console
from orchestration.operations import stopping
from sources.common.times import iso, now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hybrid import SwitchState
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.jvm.jars import resolve
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.driver_lock import is_held
from spark_jobs.run_state.heartbeat import read_heartbeat

BEGIN_MS = 1_700_000_000_000
ROWS, FILES = 20_000, 10
LIVE_PLACE = 1
POLL_S = 0.02
_PLAIN = """
import sys
from pyspark.sql import SparkSession
servers, out, state, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[*]").config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    .getOrCreate()
)
rows = (
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    .option("subscribe", "events").option("startingOffsets", "earliest").load()
    .selectExpr("from_json(cast(value as string), 'id bigint, at timestamp') AS row")
    .select("row.*")
)
query = (
    rows.writeStream.format("delta").option("checkpointLocation", state)
    .trigger(processingTime="100 milliseconds").start(out)
)
while query.lastProgress is None:
    query.awaitTermination(0.1)
query.stop()
"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    gaps: dict[str, list[tuple[int, int]]] = {"warm": [], "cold": [], "plain": []}
    steps: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder, servers = Path(name), broker.bootstrap_servers
        (folder / "identity.py").write_text("def rows(rows):\n    return rows\n")
        create_topic(servers, "events", 2, {"retention.ms": "-1"})
        _write(folder, servers)
        for round_ in range(options.rounds):
            for kind, measured in gaps.items():
                if kind == "plain":
                    measured.append(_run_plain(folder / f"plain{round_}", servers))
                else:
                    done: dict[str, int] = {}
                    measured.append(_run(_pipeline(folder, servers, kind, round_), done))
                    steps += [done] * (kind == "cold")
                sys.stdout.write(
                    f"{kind}: {measured[-1]} ms to begin and commit of the first batch\n"
                )
                sys.stdout.flush()
    result = {
        kind: {
            what: {"median_ms": statistics.median(of), "worst_ms": max(of), "all_ms": list(of)}
            for what, of in zip(("begun", "committed"), zip(*measured, strict=True), strict=True)
        }
        for kind, measured in gaps.items()
    }
    medians = {name: statistics.median(each[name] for each in steps) for name in steps[0]}
    record("switch", {"gaps": result, "cold_steps_ms": medians})
    sys.stdout.write(f"cold, ms until the end of each step: {json.dumps(medians)}\n")
    for kind, numbers in result.items():
        for what, of in numbers.items():
            line = f"{kind}, {what}: median {of['median_ms']:,.0f} ms, worst {of['worst_ms']:,} ms"
            sys.stdout.write(f"{line}\n")


def _run(loaded: LoadedPipeline, done: dict[str, int]) -> tuple[int, int]:
    """Run a chain until it is live, and measure its switch.

    Args:
        loaded: The pipeline.
        done: Receives, by name, the end of each step in ms since history's last commit.

    Returns:
        Milliseconds from history's last commit to begin and commit of the first live micro-batch.
    """
    seen: dict[str, int] = {}
    is_over = threading.Event()
    observer = threading.Thread(target=_observe_steps, args=(loaded, seen, is_over))
    observer.start()
    try:
        console.run(loaded, stop_when_caught_up=False)
    finally:
        is_over.set()
        observer.join()
        stopping.stop(loaded)
    folder = loaded.require_generation().checkpoint
    last = offset_log.last_committed(folder)
    assert last is not None
    first = next(
        batch
        for batch in range(last + 1)
        if "events" in str(offset_log.offset_of(folder, batch, LIVE_PLACE))
    )
    before = _committed_at_ms(folder, first - 1)
    begun = (folder.root / "offsets" / str(first)).stat().st_mtime_ns // 1_000_000
    steps = {**seen, "the first live micro-batch has begun": begun}
    done |= {name: time_ms - before for name, time_ms in steps.items()}
    return begun - before, _committed_at_ms(folder, first) - before


def _committed_at_ms(checkpoint: Folder, batch: int) -> int:
    found = offset_log.committed_at_ms(checkpoint, batch)
    assert found is not None
    return found


def _observe_steps(loaded: LoadedPipeline, seen: dict[str, int], is_over: threading.Event) -> None:
    """Note when each step of a switch is done, in ms since 1970, until stopped.

    Args:
        loaded: The pipeline.
        seen: Receives the times by name of the step.
        is_over: Ends the observation.
    """
    while (generation := loaded.open_generation(create=False)) is None:
        if is_over.wait(POLL_S):
            return
    waiting = _cold_steps(loaded, generation)
    while waiting and not is_over.wait(POLL_S):
        for name in [name for name, is_done in waiting.items() if is_done()]:
            seen[name] = now_ms()
            del waiting[name]


def _cold_steps(loaded: LoadedPipeline, generation: Generation) -> dict[str, Callable[[], bool]]:
    """Return, by name of each step of a cold switch, a function that checks whether it is done."""
    switch_state = SwitchState(loaded.pipeline.hybrid_source(), generation)

    def is_launched() -> bool:
        launch = last_launch(generation)
        return launch is not None and launch.source == "live"

    def is_running() -> bool:
        beat = read_heartbeat(generation, "live")
        return beat is not None and beat.state == "running"

    return {
        "the end position of history is stored": lambda: switch_state.end_of("history") is not None,
        "the driver of history has released the lock": lambda: (
            switch_state.end_of("history") is not None and not is_held(generation)
        ),
        "the start position of the topic is stored": lambda: (
            switch_state.start_of("live") is not None
        ),
        "the live driver is launched": is_launched,
        "its Python process is running": lambda: read_heartbeat(generation, "live") is not None,
        "its Spark session and query are running": is_running,
    }


def _run_plain(folder: Path, servers: str) -> tuple[int, int]:
    """Run a plain Spark script; return ms from launch to begin and commit of its first batch."""
    folder.mkdir()
    (folder / "plain.py").write_text(_PLAIN)
    launched = now_ms()
    jars = ",".join(map(str, resolve("spark")))
    paths = [str(folder / name) for name in ("out", "state")]
    command = [sys.executable, str(folder / "plain.py"), servers, *paths, jars]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun = (folder / "state" / "offsets" / "0").stat().st_mtime_ns // 1_000_000
    return begun - launched, _committed_at_ms(Folder(folder / "state"), 0) - launched


def _write(folder: Path, servers: str) -> None:
    """Write history files, and a topic with the last 1 % of their rows and as many new ones."""
    ids = pa.array(range(ROWS), pa.int64())
    at = pa.array([(BEGIN_MS + n) * 1000 for n in range(ROWS)]).cast(pa.timestamp("us", "UTC"))
    (folder / "in").mkdir()
    table = pa.table({"id": ids, "at": at})
    rows_per_file = ROWS // FILES
    for number in range(FILES):
        pq.write_table(
            table.slice(number * rows_per_file, rows_per_file), folder / "in" / f"{number}.parquet"
        )
    producer = Producer({"bootstrap.servers": servers})
    for n in range(ROWS - ROWS // 100, ROWS + ROWS // 100):
        value = json.dumps({"id": n, "at": iso(BEGIN_MS + n)}).encode()
        producer.produce("events", value, partition=n % 2, timestamp=BEGIN_MS + n)
    assert producer.flush(60) == 0


def _pipeline(folder: Path, servers: str, kind: str, round_: int) -> LoadedPipeline:
    """Create the file of a pipeline with a kind of switch, ``warm`` or ``cold``, and load it."""
    document = {
        "name": f"{kind}{round_}",
        "event_time": "at",
        "key": ["id"],
        "switch": kind,
        "sources": [
            {
                "type": "files",
                "name": "history",
                "path": "in",
                "format": "parquet",
                "batch": {"files": 1},
            },
            {
                "type": "kafka",
                "name": "live",
                "topic": "events",
                "bootstrap_servers": servers,
                "trigger_interval": "100 ms",
            },
        ],
        "transform": "identity:rows",
        "sink": {"path": f"out-{kind}{round_}", "mode": "append", "key": ["id"]},
        "state": "state",
    }
    path = folder / f"{kind}{round_}.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)


if __name__ == "__main__":
    main()
