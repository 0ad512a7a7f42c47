"""What the Spark benchmarks share: a session as the project's jobs have it, and a report."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sources.document import LoadedPipeline
from spark_jobs.jars import resolve
from spark_jobs.submit import spark_conf


def session(loaded: LoadedPipeline, scratch: Path) -> SparkSession:
    """A session with the settings that a job of this pipeline gets."""
    builder = SparkSession.builder.config("spark.jars", ",".join(map(str, resolve("spark"))))
    for name, value in spark_conf(loaded, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write_to_delta(rows: DataFrame, target: Path) -> float:
    """Seconds that a stream takes to be written to its end."""
    started = time.monotonic()
    query = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", f"{target}-checkpoint")
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()
    return time.monotonic() - started


def report(name: str, speeds: dict[str, list[float]], first: str, second: str, rows: int) -> None:
    """Print the speeds (rows/s) and the ratio of two of them, and write ``build/<name>.json``."""
    medians = {contender: statistics.median(values) for contender, values in speeds.items()}
    ratios = [a / b for a, b in zip(speeds[first], speeds[second], strict=True)]
    result = {
        "rows": rows,
        "cores": os.cpu_count(),
        "rows_per_s": speeds,
        "ratio": medians[first] / medians[second],
        "ratio_by_round": ratios,
    }
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / f"{name}.json").write_text(json.dumps(result, indent=2))
    for contender, values in speeds.items():
        shown = " ".join(f"{value:,.0f}" for value in values)
        sys.stdout.write(f"{contender}: {shown} rows/s\n")
    spread = f"{min(ratios):.3f} … {max(ratios):.3f}"
    sys.stdout.write(f"{first} ÷ {second}: {result['ratio']:.3f} ({spread} by round)\n")
