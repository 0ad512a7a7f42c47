"""Benchmark: a table of many small micro-batches, before and after its compaction.

    python -m benchmarks.upkeep --commits 10000

The table has a few large files of history; then each commit appends one small file, as a live
stream does. Opening it is measured by Delta's Rust library, reading all of it by DuckDB over the
table's files and by Spark.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from benchmarks.record import record
from hybrid_extensions.upkeep.files.compaction import Compaction
from sources.common.times import now_ms
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import commit_name
from spark_jobs.jvm.jars import resolve
from spark_jobs.table.history_files import keep_history_files, read_history_files

HISTORY_FILES = 10
HISTORY_ROWS = 100_000
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="rows of a micro-batch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        generation = Generation(Folder(folder / "state"), info)
        path = folder / "table"
        _fill(path, generation, options.commits, options.rows)
        spark = _session()
        results = [{"when": "before", **_measure(path, spark, options.rounds)}]
        compaction = Compaction(
            generation,
            Folder(path),
            lambda: read_history_files(generation, DeltaTable(path)),
            contextlib.nullcontext,
        )
        begin = time.perf_counter()
        done = compaction.run(print)
        took_s = round(time.perf_counter() - begin, 1)
        after = _measure(path, spark, options.rounds)
        results.append({"when": "after", "compact_s": took_s, "commits": done.commits, **after})
        spark.stop()
    for result in results:
        sys.stdout.write(f"{json.dumps(result)}\n")
    record("upkeep", results)


def _fill(path: Path, generation: Generation, commits: int, rows: int) -> None:
    """Write history, then micro-batches, each with its transaction, as a stream does."""
    for number in range(HISTORY_FILES):
        write_deltalake(path, _rows(number * HISTORY_ROWS, HISTORY_ROWS), mode="append")
    keep_history_files(generation, Folder(path), Folder(path))
    begin, version = HISTORY_FILES * HISTORY_ROWS, DeltaTable(path).version()
    for number in range(commits):
        batch = _rows(begin + number * rows, rows)
        name = f"part-{number:08d}.parquet"
        pq.write_table(batch, path / name)
        # By the library each commit would take longer than the one before.
        (path / commit_name(version + 1 + number)).write_text(_commit(path, name, batch, number))
    DeltaTable(path).create_checkpoint()


def _commit(path: Path, name: str, batch: pa.Table, number: int) -> str:
    """Return the commit of a micro-batch: its transaction, and its only file."""
    ids = batch["id"]
    statistics = {
        "numRecords": batch.num_rows,
        "minValues": {"id": ids[0].as_py()},
        "maxValues": {"id": ids[-1].as_py()},
        "nullCount": {"id": 0},
    }
    now = now_ms()
    add = {
        "path": name,
        "partitionValues": {},
        "size": (path / name).stat().st_size,
        "modificationTime": now,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }
    actions = [
        {"commitInfo": {"timestamp": now, "operation": "STREAMING UPDATE"}},
        {"txn": {"appId": "stream", "version": number, "lastUpdated": now}},
        {"add": add},
    ]
    return "".join(f"{json.dumps(each)}\n" for each in actions)


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    at = [_BEGIN + timedelta(seconds=n) for n in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "v": pa.array([n / 2 for n in ids], pa.float64()),
            "name": pa.array([f"user {n % 1000}" for n in ids], pa.string()),
        }
    )


def _session() -> SparkSession:
    conf = {
        "spark.jars": ",".join(map(str, resolve("spark"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.range(10).count()
    return spark


def _measure(path: Path, spark: SparkSession, rounds: int) -> dict[str, float]:
    """Return the number of files, and the medians of times to open and to read the table."""

    def read_by_duckdb() -> int:
        rows = DeltaTable(path).to_pyarrow_dataset()
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            found = connection.execute("SELECT count(*), sum(v) FROM rows").fetchone()
        return int(found[0]) if found else 0

    def read_by_spark() -> int:
        found = spark.read.format("delta").load(str(path)).selectExpr("count(*)", "sum(v)").first()
        return int(found[0]) if found else 0

    expected = read_by_duckdb()
    if read_by_spark() != expected:
        message = "DuckDB and Spark have read different numbers of rows."
        raise RuntimeError(message)
    return {
        "files": len(DeltaTable(path).file_uris()),
        "rows": expected,
        "open_s": _median(lambda: DeltaTable(path), rounds),
        "duckdb_s": _median(read_by_duckdb, rounds),
        "spark_s": _median(read_by_spark, rounds),
    }


def _median(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return round(statistics.median(times), 2)


if __name__ == "__main__":
    main()
