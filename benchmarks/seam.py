"""Benchmark: how long it takes to read seams of several numbers of rows.

python -m benchmarks.seam --overlaps 1000 10000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.record import record
from benchmarks.session import HERE, read_history, session
from benchmarks.topics import deliver, send
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.planning.context import PipelineContext
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.places import followed_topic_stream
from spark_jobs.inside.query.query_sources import declare_query

BEGIN_MS = 1_700_000_000_000
PARTITIONS = 2
OVERLAPS = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
MAX_OFFSETS = 4_000_000


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--overlaps",
        type=int,
        nargs="+",
        default=OVERLAPS,
        help="rows that are in both files and topic",
    )
    options = parser.parse_args()
    record("overlap", [_pass_seam(rows) for rows in options.overlaps])


def _pass_seam(rows: int) -> dict[str, float]:
    """Read history and a seam in which the topic holds exactly the same rows; return times.

    Raises:
        RuntimeError: The target does not hold each row once.
    """
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder, servers = Path(name), broker.bootstrap_servers
        (folder / "identity.py").write_text("def rows(rows):\n    return rows\n")
        create_topic(servers, "events", PARTITIONS, {"retention.ms": "-1"})
        _write_history(folder, rows)
        _produce(servers, rows)
        loaded = _pipeline(folder, servers)
        spark = session(loaded, folder)
        started = time.monotonic()
        read_history(spark, loaded)
        history_s = time.monotonic() - started
        seam_s = _read_all(spark, loaded)
        spark.stop()
        count = DeltaTable(loaded.locate(loaded.pipeline.sink.path)).count()
        if count != rows:
            message = f"The target has {count} rows instead of {rows}."
            raise RuntimeError(message)
    result = {
        "overlap_rows": rows,
        "history_s": round(history_s, 1),
        "seam_s": round(seam_s, 1),
        "seam_us_per_row": round(seam_s / rows * 1e6, 1),
    }
    sys.stdout.write(f"{json.dumps(result)}\n")
    sys.stdout.flush()
    return result


def _write_history(folder: Path, rows: int) -> None:
    """Write a Parquet file of rows, one millisecond of event time apart."""
    (folder / "in").mkdir()
    ids = range(rows)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([BEGIN_MS + n for n in ids], pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(table, folder / "in" / "0.parquet")


def _produce(servers: str, rows: int) -> None:
    """Produce a record of each row, and wait until all are delivered.

    Raises:
        RuntimeError: The broker did not confirm all of them.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20})
    for n in range(rows):
        moment = time.gmtime((BEGIN_MS + n) // 1000)
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{(BEGIN_MS + n) % 1000:03}Z"
        value = json.dumps({"id": n, "at": at})
        send(producer, "events", value, partition=n % PARTITIONS, timestamp=BEGIN_MS + n)
    deliver(producer)


def _pipeline(folder: Path, servers: str) -> LoadedPipeline:
    """Return the pipeline of files and topic, with state and target in the folder."""
    document = {
        "name": "bench",
        "event_time": "at",
        "key": ["id"],
        "allowed_lateness": "1 day",
        "seam_filter": "key",
        "sources": [
            {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"},
            {
                "type": "kafka",
                "name": "live",
                "topic": "events",
                "bootstrap_servers": servers,
                "max_offsets_per_batch": MAX_OFFSETS,
                "trigger_interval": "100 ms",
            },
        ],
        "transform": "identity:rows",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "spark": HERE,
    }
    return LoadedPipeline(folder / "bench.yaml", Pipeline.model_validate(document))


def _read_all(spark: SparkSession, loaded: LoadedPipeline) -> float:
    """Let the live query read the topic to its end; return the seconds, without its start."""
    # A driver builds the query again after the first, small micro-batches; here is one query.
    followed_topic_stream.FIRST_OFFSETS = MAX_OFFSETS
    query = declare_query(PipelineContext.require(loaded), "live")
    running = build_query(spark, query).writer.start()
    started = time.monotonic()
    running.processAllAvailable()
    seconds = time.monotonic() - started
    running.stop()
    return seconds


if __name__ == "__main__":
    main()
