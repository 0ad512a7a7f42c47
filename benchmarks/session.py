"""What the Spark benchmarks share: a session as the project's jobs have it, and a report."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sources.document import LoadedPipeline
from spark_jobs.jars import resolve
from spark_jobs.submit import spark_conf


def session(loaded: LoadedPipeline, scratch: Path) -> SparkSession:
    """A session with the settings that a job of this pipeline gets."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.jars", ",".join(map(str, resolve("spark"))))
    for name, value in spark_conf(loaded, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write_to_delta(read: Callable[[], DataFrame], target: Path) -> float:
    """Seconds until rows are planned, read and written: a stream to its end, or a batch."""
    started = time.monotonic()
    rows = read()
    if not rows.isStreaming:
        rows.write.format("delta").save(str(target))
        return time.monotonic() - started
    query = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", f"{target}-checkpoint")
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()
    return time.monotonic() - started


def report(name: str, speeds: dict[str, list[float]], first: str, rows: int) -> None:
    """Print the speeds (rows/s) and the ratio of one to each other; write ``build/<name>.json``."""
    medians = {contender: statistics.median(values) for contender, values in speeds.items()}
    others = [contender for contender in speeds if contender != first]
    ratios = {
        other: [a / b for a, b in zip(speeds[first], speeds[other], strict=True)]
        for other in others
    }
    result = {
        "rows": rows,
        "cores": os.cpu_count(),
        "rows_per_s": speeds,
        "ratio": {other: medians[first] / medians[other] for other in others},
        "ratio_by_round": ratios,
    }
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / f"{name}.json").write_text(json.dumps(result, indent=2))
    for contender, values in speeds.items():
        shown = " ".join(f"{value:,.0f}" for value in values)
        sys.stdout.write(f"{contender}: {shown} rows/s\n")
    for other, by_round in ratios.items():
        spread = f"{min(by_round):.3f} … {max(by_round):.3f}"
        ratio = medians[first] / medians[other]
        sys.stdout.write(f"{first} ÷ {other}: {ratio:.3f} ({spread} by round)\n")
