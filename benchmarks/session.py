"""What the Spark benchmarks share: a session as the project's jobs have it, and a report."""

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
from spark_jobs.driver.bounded_run import run_bounded
from spark_jobs.driver.reporter import Reporter
from spark_jobs.jvm.jars import resolve
from spark_jobs.launch.submit import STATE_STORE, spark_conf
from tests.services.standalone import standalone

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = STATE_STORE[STORE]
# Spark's own default.
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
HERE: dict[str, Any] = {"driver_memory": "4g", "conf": {"spark.ui.enabled": "false"}}


def session(loaded: LoadedPipeline, scratch: Path, more: Sequence[Path] = ()) -> SparkSession:
    """A session with the settings that a job of this pipeline gets, and more jars."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config(
        "spark.jars", ",".join(map(str, [*resolve("spark"), *more]))
    )
    for name, value in spark_conf(loaded, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def place(on_cluster: bool, folder: Path) -> Iterator[dict[str, Any]]:
    """Where a benchmark runs, as a pipeline's ``spark`` says it: in this process, or on a cluster.

    Args:
        on_cluster: Start a master and two workers of a core each, and use them.
        folder: For their files.
    """
    if not on_cluster:
        yield HERE
        return
    with standalone(folder, memory="3G") as cluster:
        conf = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "2g"}
        yield {**HERE, "master": cluster.url, "conf": {**HERE["conf"], **conf}}


def jvm_pid(spark: SparkSession) -> int:
    """The process id of a session's driver."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def plain_topic(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """A topic as Spark's own source streams it, from its beginning."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def write_to_delta(read: Callable[[], DataFrame], target: Path) -> float:
    """Seconds until rows are planned, read and written: a stream to its end, or a batch.

    The target is gone afterwards: each contender finds the disk as the one before did.
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
    """Plan, read all of history, and decide where the topic starts."""
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    reporter = Reporter(context, "history", "bench", None)
    run_bounded(spark, context, "history", reporter, threading.Event())
    (live,) = loaded.pipeline.topics
    hand_over(loaded, live)


def race(
    contenders: dict[str, Callable[[], DataFrame]], rounds: int, rows: int, target: Path
) -> dict[str, list[float]]:
    """Rows/s of contenders that write the same rows to Delta, by round."""
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):  # the first one warms up
        for contender in in_turns(list(contenders), round_):
            speed = rows / write_to_delta(contenders[contender], target)
            if round_:
                speeds[contender].append(speed)
    return speeds


def in_turns(contenders: list[str], round_: int) -> list[str]:
    """The contenders of a round: each is first, and last, as often as any other.

    A JVM gets faster for minutes, and who comes second finds files in the page cache.
    """
    first = round_ % len(contenders)
    return contenders[first:] + contenders[:first]


def report(name: str, speeds: dict[str, list[float]], first: str, rows: int) -> None:
    """Print the speeds (rows/s) and the ratio of one to each other, and write them down."""
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
