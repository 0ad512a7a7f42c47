"""Benchmark: costs of the seam filter inside the seam and after it, and by the size of the seam.

    python -m benchmarks.seam
    python -m benchmarks.seam --overlaps 1000 10000

Two pipelines over the same files and topic, one with the filter and one without, take turns to read
the same records: first the rows of history, all of which are in the topic too, then new ones.
``--overlaps`` measures instead how long it takes to read seams of these numbers of rows.
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
from benchmarks.session import HERE, in_turns, read_history, report, session
from benchmarks.topics import deliver, send
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.planning.context import PipelineContext
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.places import followed_topic
from spark_jobs.inside.query.query_sources import declare_query

BEGIN_MS = 1_700_000_000_000
PARTITIONS = 2
CONTENDERS = {"filter": "key", "no filter": "off"}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--history", type=int, default=500_000, help="rows that are in both files and topic"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="new rows of a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--overlaps", type=int, nargs="+", help="rows that are in both files and topic"
    )
    options = parser.parse_args()
    if options.overlaps:
        record("overlap", [_pass_seam(rows) for rows in options.overlaps])
        return
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder, servers = Path(name), broker.bootstrap_servers
        (folder / "identity.py").write_text("def rows(rows):\n    return rows\n")
        create_topic(servers, "events", PARTITIONS, {"retention.ms": "-1"})
        _write_history(folder, options.history)
        _produce(servers, 0, options.history)
        spark = session(_pipeline(folder, servers, "off", 0), folder)
        inside: dict[str, list[float]] = {contender: [] for contender in CONTENDERS}
        after: dict[str, list[float]] = {contender: [] for contender in CONTENDERS}
        loaded = {}
        for round_ in range(options.rounds + 1):  # the first one warms up
            for contender in in_turns(list(CONTENDERS), round_):
                loaded[contender] = _pipeline(folder, servers, CONTENDERS[contender], round_)
                read_history(spark, loaded[contender])
                seconds = _read_all(spark, loaded[contender])
                if round_:
                    inside[contender].append(options.history / seconds)
        for round_ in range(options.rounds + 1):
            first = options.history + round_ * options.rows
            _produce(servers, first, first + options.rows)
            for contender in in_turns(list(CONTENDERS), round_):
                seconds = _read_all(spark, loaded[contender])
                if round_:
                    after[contender].append(options.rows / seconds)
        spark.stop()
    report("seam-inside", inside, "filter", options.history)
    report("seam-after", after, "filter", options.rows)


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
        _produce(servers, 0, rows)
        loaded = _pipeline(folder, servers, "key", 0, 4_000_000)
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


def _produce(servers: str, first: int, end: int) -> None:
    """Produce the records of a range of ids, and wait until all are delivered.

    Raises:
        RuntimeError: The broker did not confirm all of them.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20})
    for n in range(first, end):
        moment = time.gmtime((BEGIN_MS + n) // 1000)
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{(BEGIN_MS + n) % 1000:03}Z"
        value = json.dumps({"id": n, "at": at})
        send(producer, "events", value, partition=n % PARTITIONS, timestamp=BEGIN_MS + n)
    deliver(producer)


def _pipeline(
    folder: Path, servers: str, rule: str, round_: int, batch: int = 250_000
) -> LoadedPipeline:
    """Return a pipeline of files and topic with separate state and target for each round.

    Args:
        folder: Folder of files, state and target.
        servers: Address of the broker.
        rule: Value of ``seam_filter``.
        round_: Number of the round.
        batch: Largest number of offsets in a micro-batch.
    """
    document = {
        "name": "bench",
        "event_time": "at",
        "key": ["id"],
        "allowed_lateness": "1 day",
        "seam_filter": rule,
        "sources": [
            {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"},
            {
                "type": "kafka",
                "name": "live",
                "topic": "events",
                "bootstrap_servers": servers,
                "max_offsets_per_batch": batch,
                "trigger_interval": "100 ms",
            },
        ],
        "transform": "identity:rows",
        "sink": {"path": f"out-{rule}-{round_}", "mode": "append", "key": ["id"]},
        "state": f"state-{rule}-{round_}",
        "spark": HERE,
    }
    return LoadedPipeline(folder / "bench.yaml", Pipeline.model_validate(document))


def _read_all(spark: SparkSession, loaded: LoadedPipeline) -> float:
    """Let the live query read the topic to its end; return the seconds, without its start."""
    # A driver builds the query again after the first, small micro-batches; here is one query.
    followed_topic.FIRST_OFFSETS = loaded.pipeline.topics[-1].max_offsets_per_batch
    query = declare_query(PipelineContext.require(loaded), "live")
    running = build_query(spark, query).writer.start()
    started = time.monotonic()
    running.processAllAvailable()
    seconds = time.monotonic() - started
    running.stop()
    return seconds


if __name__ == "__main__":
    main()
