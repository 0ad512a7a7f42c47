"""Benchmark: costs of a run by the number of keys in its state, for history and the live run.

    python -m benchmarks.keys
    python -m benchmarks.keys --in-memory
    python -m benchmarks.keys --as-live

Each row has a different key, and the transform drops duplicates. The state therefore keeps all keys
of history, and the live run looks them up in small micro-batches. The first one of them loads the
state. ``--in-memory`` uses Spark's default state store instead of RocksDB, which the project uses;
``--as-live`` uses RocksDB in history with the settings of the live run, instead of those that fill
it in bulk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.processes import cpu_s_of
from benchmarks.record import record
from benchmarks.session import IN_MEMORY, STORE, jvm_pid, read_history, session
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.planning.context import PipelineContext
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.filled_state import FILLING
from spark_jobs.inside.query.query_sources import declare_query

BATCHES = 10
RECORDS = 1000
FILES = 16
_BEGIN_US = 1_700_000_000_000_000
_TRANSFORM = "def once(rows):\n    return rows.dropDuplicates(['id'])\n"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10**power for power in range(4, 8)])
    parser.add_argument("--in-memory", action="store_true", help="keep the state in the JVM's heap")
    parser.add_argument("--as-live", action="store_true", help="fill it with the live settings")
    options = parser.parse_args()
    # What a pipeline declares is in force for history, too.
    conf = dict.fromkeys(FILLING, "true") if options.as_live else {}
    conf |= {STORE: IN_MEMORY} if options.in_memory else {}
    results = []
    for keys in [options.keys[0], *options.keys]:  # the first one warms up
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
            result = _measure(Path(name), broker.bootstrap_servers, keys, conf)
        results.append(result)
        sys.stdout.write(f"{json.dumps(result)}\n")
        sys.stdout.flush()
    suffix = "-in-memory" * options.in_memory + "-as-live" * options.as_live
    record(f"keys{suffix}", results[1:])


def _measure(folder: Path, servers: str, keys: int, conf: dict[str, str]) -> dict[str, float]:
    """Run history with a number of keys, then live micro-batches; return times and sizes.

    Args:
        folder: An empty folder.
        servers: Address of the broker.
        keys: Number of keys in history.
        conf: Further Spark settings.
    """
    (folder / "seen.py").write_text(_TRANSFORM)
    create_topic(servers, "events", 2, {"retention.ms": "-1"})
    _write_history(folder, keys)
    loaded = _pipeline(folder, servers, conf)
    spark = session(loaded, folder)
    jvm = jvm_pid(spark)
    started, cpu = time.monotonic(), cpu_s_of([jvm])
    read_history(spark, loaded)
    history_s, history_cpu_s = time.monotonic() - started, cpu_s_of([jvm]) - cpu
    query = declare_query(PipelineContext.require(loaded), "live")
    _produce(servers, keys)
    begun, cpu = time.monotonic(), cpu_s_of([jvm])
    running = build_query(spark, query).writer.start()
    running.processAllAvailable()
    first_s, first_cpu_s = time.monotonic() - begun, cpu_s_of([jvm]) - cpu
    seconds = []
    for batch in range(1, BATCHES + 1):
        _produce(servers, keys + batch * RECORDS)
        begun = time.monotonic()
        running.processAllAvailable()
        seconds.append(time.monotonic() - begun)
    running.stop()
    peak = _peak_mib(jvm)
    spark.stop()
    state = loaded.require_generation().checkpoint.root / "state"
    size = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
    return {
        "keys": keys,
        "history_s": round(history_s, 1),
        "history_us_per_key": round(history_s / keys * 1e6, 1),
        "history_cpu_s": round(history_cpu_s, 1),
        "first_live_batch_s": round(first_s, 1),
        "first_live_batch_cpu_s": round(first_cpu_s, 1),
        "live_batch_ms": round(statistics.median(seconds) * 1000),
        "jvm_peak_mib": peak,
        "state_mib": round(size / 2**20, 1),
    }


def _write_history(folder: Path, keys: int) -> None:
    """Write Parquet files with a row for each key."""
    (folder / "in").mkdir()
    for number, ids in enumerate(np.array_split(np.arange(keys), FILES)):
        at = pa.array(_BEGIN_US + ids).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": ids, "at": at}), folder / "in" / f"{number:02}.parquet")


def _produce(servers: str, first: int) -> None:
    """Produce records with new keys, from a first key on, and wait until all are delivered."""
    producer = Producer({"bootstrap.servers": servers})
    for n in range(first, first + RECORDS):
        at = (_BEGIN_US + n) // 1000
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000))
        value = json.dumps({"id": n, "at": f"{moment}.{(_BEGIN_US + n) % 1_000_000:06}Z"})
        producer.produce("events", value, partition=n % 2, timestamp=at)
    assert producer.flush(60) == 0


def _pipeline(folder: Path, servers: str, conf: dict[str, str]) -> LoadedPipeline:
    """Return a pipeline of files and topic that drops duplicate keys, with some Spark settings."""
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", **conf}
    document = {
        "name": "bench",
        "event_time": "at",
        "key": ["id"],
        "sources": [
            {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"},
            {
                "type": "kafka",
                "name": "live",
                "topic": "events",
                "bootstrap_servers": servers,
                "trigger_interval": "0 s",
            },
        ],
        "transform": "seen:once",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "spark": {"driver_memory": "8g", "conf": conf},
    }
    return LoadedPipeline(folder / "bench.yaml", Pipeline.model_validate(document))


def _peak_mib(pid: int) -> int:
    """Return the peak resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
