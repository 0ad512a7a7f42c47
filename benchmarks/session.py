"""Spark session, races between contenders and reports, shared by the Spark benchmarks."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.record import record
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.bounded_run import run_bounded
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.jvm.jars import resolve
from spark_jobs.launch.submission.spark_properties import STATE_STORE, spark_conf
from tests.services.standalone import standalone

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = STATE_STORE[STORE]
# Spark's own default.
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
# Section `spark` of a pipeline that runs in the benchmark's own process.
HERE: dict[str, Any] = {"driver_memory": "4g", "conf": {"spark.ui.enabled": "false"}}


def session(loaded: LoadedPipeline, scratch: Path, extra_jars: Sequence[Path] = ()) -> SparkSession:
    """Return a Spark session with the settings that a job of a pipeline gets.

    Args:
        loaded: The pipeline.
        scratch: Folder for Spark's local files.
        extra_jars: Jars in addition to those of the project.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config(
        "spark.jars", ",".join(map(str, [*resolve("spark"), *extra_jars]))
    )
    for name, value in spark_conf(loaded, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def place(on_cluster: bool, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the section ``spark`` of a pipeline that runs in this process or on a cluster.

    Args:
        on_cluster: Whether to start, use and stop a standalone cluster: a master and two workers
            of one core each.
        folder: Folder for the cluster's files.
    """
    if not on_cluster:
        yield HERE
        return
    with standalone(folder, memory="3G") as cluster:
        conf = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "2g"}
        yield {**HERE, "master": cluster.url, "conf": {**HERE["conf"], **conf}}


def jvm_pid(spark: SparkSession) -> int:
    """Return the process id of the JVM of a session's driver."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def plain_topic(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a topic as a stream of Spark's own Kafka source, from the earliest offsets."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def write_to_delta(read: Callable[[], DataFrame], target: Path) -> float:
    """Write rows to a Delta table, a stream to its end or a batch; return the seconds.

    The seconds include planning and reading. The table is removed afterwards, so that each
    contender starts with the same disk.

    Args:
        read: Function that returns the rows.
        target: Path of the table.
    """
    checkpoint = f"{target}-checkpoint"
    started = time.monotonic()
    rows = read()
    if rows.isStreaming:
        writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(str(target)).awaitTermination()
    else:
        rows.write.format("delta").save(str(target))
    seconds = time.monotonic() - started
    for folder in (str(target), checkpoint):
        shutil.rmtree(folder, ignore_errors=True)
    return seconds


def read_history(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan a pipeline, run its source ``history`` to its end, and hand over to its topic."""
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    reporter = Reporter(context, "history", "bench", None)
    run_bounded(spark, context, "history", reporter, threading.Event())
    (live,) = loaded.pipeline.topics
    hand_over(PipelineContext.require(loaded), live)


def race(
    contenders: dict[str, Callable[[], DataFrame]], rounds: int, rows: int, target: Path
) -> dict[str, list[float]]:
    """Let contenders write the same rows to Delta in turn; return their rows/s by round.

    Args:
        contenders: By name, a function that returns the rows.
        rounds: Number of rounds that count, after one that warms up.
        rows: Number of rows.
        target: Path of the Delta table.
    """
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):  # the first one warms up
        for contender in in_turns(list(contenders), round_):
            speed = rows / write_to_delta(contenders[contender], target)
            if round_:
                speeds[contender].append(speed)
    return speeds


def in_turns(contenders: list[str], round_: int) -> list[str]:
    """Return the order of the contenders in a round; each round begins with the next contender.

    A fixed order would be unfair: a JVM gets faster for minutes, and later contenders find files
    in the page cache.
    """
    first = round_ % len(contenders)
    return contenders[first:] + contenders[:first]


def report(name: str, speeds: dict[str, list[float]], first: str, rows: int) -> None:
    """Print and record the speeds of contenders, and the ratio of one to each of the others.

    Args:
        name: Name of the benchmark.
        speeds: Rows/s by round, by name of the contender.
        first: The contender in the numerator of the ratios.
        rows: Number of rows of a round.
    """
    medians = {contender: statistics.median(values) for contender, values in speeds.items()}
    others = [contender for contender in speeds if contender != first]
    ratios = {
        other: [a / b for a, b in zip(speeds[first], speeds[other], strict=True)]
        for other in others
    }
    result = {
        "rows": rows,
        "first": first,
        "rows_per_s": speeds,
        "ratio": {other: medians[first] / medians[other] for other in others},
        "ratio_by_round": ratios,
    }
    record(name, result)
    for contender, values in speeds.items():
        shown = " ".join(f"{value:,.0f}" for value in values)
        sys.stdout.write(f"{contender}: {shown} rows/s\n")
    for other, by_round in ratios.items():
        spread = f"{min(by_round):.3f} … {max(by_round):.3f}"
        ratio = medians[first] / medians[other]
        sys.stdout.write(f"{first} ÷ {other}: {ratio:.3f} ({spread} by round)\n")
