"""Benchmark: fixed costs of commands that have little work, such as imports and start-up.

    python -m benchmarks.fixed --rounds 5

Each command is a separate process, as users start it. The backfill of a day is compared with a
Spark script that replaces the same day and does nothing else.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.record import record
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.spark_version import spark_home

FILES = 1000
DAYS = 100
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_HYBRID = Path(sys.executable).with_name("hybrid")
_SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as F
rows, out, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[*]").config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    .config("spark.ui.enabled", "false").getOrCreate()
)
days = spark.read.parquet(rows)
one = days.where("at >= '2024-01-02T00:00:00Z' AND at < '2024-01-03T00:00:00Z'")
condition = "at >= '2024-01-02T00:00:00Z' AND at < '2024-01-03T00:00:00Z'"
one.write.format("delta").mode("overwrite").option("replaceWhere", condition).save(out)
spark.stop()
"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        files = _prepare(folder, "files", FILES)
        days = _prepare(folder, "days", DAYS)
        (folder / "plain.py").write_text(_SCRIPT)
        _hybrid("run", days)
        table = folder / "plain-out"
        jars = ",".join(map(str, resolve("spark")))
        plain: list[str | Path] = [
            sys.executable,
            folder / "plain.py",
            folder / "days" / "in",
            table,
            jars,
        ]
        durations = {
            "hybrid --help": _time(options.rounds, lambda: _hybrid("--help")),
            f"hybrid plan, {FILES:,} files": _time(
                options.rounds,
                lambda: _hybrid("plan", files),
                lambda: _remove(folder / "files" / "state"),
            ),
            "hybrid status": _time(options.rounds, lambda: _hybrid("status", days)),
            "hybrid run, nothing to do": _time(options.rounds, lambda: _hybrid("run", days)),
            "loading Dagster's definitions": _time(
                options.rounds, lambda: _load_definitions(folder / "days")
            ),
            "hybrid backfill of a day": _time(
                options.rounds,
                lambda: _hybrid("backfill", days, "--since", "2024-01-02", "--until", "2024-01-03"),
            ),
            "plain Spark, the same day": _time(options.rounds, lambda: _run(plain)),
        }
    record("fixed", durations)
    for command, seconds in durations.items():
        sys.stdout.write(
            f"{command}: median {seconds['median_s']} s, worst {seconds['worst_s']} s\n"
        )


def _time(
    rounds: int, work: Callable[[], None], prepare: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Measure the duration of a command over some rounds, after one that fills the page cache.

    Args:
        rounds: Number of rounds that count.
        work: What is measured.
        prepare: What is done before each round, and not measured.

    Returns:
        ``median_s`` and ``worst_s`` in seconds, and ``rounds``.
    """
    seconds = []
    for _ in range(rounds + 1):
        prepare()
        started = time.monotonic()
        work()
        seconds.append(time.monotonic() - started)
    counted = seconds[1:]
    return {
        "median_s": round(statistics.median(counted), 2),
        "worst_s": round(max(counted), 2),
        "rounds": rounds,
    }


def _hybrid(*words: str | Path) -> None:
    """Run the project's command line with some arguments."""
    _run([_HYBRID, *words])


def _load_definitions(pipelines: Path) -> None:
    """Import the Dagster definitions of the pipelines in a folder, in a new process."""
    _run(
        [sys.executable, "-c", "from orchestration.definitions import defs"],
        {"HYBRID_PIPELINES": str(pipelines)},
    )


def _run(command: list[str | Path], variables: dict[str, str] | None = None) -> None:
    """Run a command to its end, with some further environment variables.

    Raises:
        RuntimeError: It fails; the end of its stderr is printed.
    """
    environment = {**os.environ, "SPARK_HOME": str(spark_home()), **(variables or {})}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stderr.decode()[-3000:])
        message = f"{command[0]} failed with status {done.returncode}."
        raise RuntimeError(message)


def _remove(state: Path) -> None:
    """Remove a state folder, if it exists."""
    subprocess.run(["rm", "-rf", state], check=True)


def _prepare(folder: Path, name: str, files: int) -> Path:
    """Write Parquet files of 1,000 rows, one file for each day, and the pipeline that reads them.

    Args:
        folder: Folder of all pipelines.
        name: Name of the pipeline.
        files: Number of days.

    Returns:
        Path of the pipeline's YAML file.
    """
    home = folder / name
    (home / "in").mkdir(parents=True)
    (home / "events.py").write_text("def same(rows):\n    return rows\n")
    for day in range(files):
        ids = np.arange(day * 1000, (day + 1) * 1000)
        begin = BEGIN + timedelta(days=day)
        at = int(begin.timestamp()) * 1_000_000 + (ids % 1000) * 1_000_000
        rows = {"id": ids, "at": pa.array(at).cast(pa.timestamp("us", "UTC")), "value": ids * 0.5}
        pq.write_table(pa.table(rows), home / "in" / f"{begin:%Y-%m-%d}.parquet")
    document = {
        "name": name,
        "event_time": "at",
        "key": ["id"],
        "sources": [
            {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"}
        ],
        "transform": "events:same",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "ranges": {"by": "day", "start": f"{BEGIN:%Y-%m-%d}"},
        "spark": {"conf": {"spark.ui.enabled": "false"}},
    }
    path = home / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


if __name__ == "__main__":
    main()
