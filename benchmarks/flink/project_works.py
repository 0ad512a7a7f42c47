"""The project's part: one driver that does a piece of work for each line of standard input.

    python -m benchmarks.flink.project_works FOLDER

A line is a JSON object with the path of a pipeline's file. Each is answered by a line with the
seconds from the plan to the last commit. The folder is for Spark's local files.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.processes import adopt_orphans
from benchmarks.session import session
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.bounded_run import FINISHED, run_bounded
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.unbounded_run import run_unbounded

_POLL_S = 0.05


def main() -> None:
    """Answer lines until there are no more."""
    # Spark ends the parent of its Python workers now and then.
    adopt_orphans()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Spark prints is no answer
    spark: SparkSession | None = None
    for line in sys.stdin:
        loaded = load_pipeline(Path(json.loads(line)["pipeline"]))
        spark = spark or session(loaded, Path(sys.argv[1]))
        started_ms = now_ms()
        run(spark, loaded)
        seconds = (_last_commit_ms(loaded) - started_ms) / 1000
        answers.write(json.dumps({"seconds": seconds}) + "\n")
    if spark is not None:
        spark.stop()


def run(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan a pipeline of one source, and read all that is there by the code of its driver.

    Raises:
        RuntimeError: Files were not read to their end.
    """
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    (source,) = loaded.pipeline.sources
    never = threading.Event()
    if not loaded.pipeline.topics:
        reporter = Reporter(context, source.name, "bench", None)
        if run_bounded(spark, context, source.name, reporter, never) != FINISHED:
            message = "The files were not read to their end."
            raise RuntimeError(message)
        return
    (topic,) = loaded.pipeline.topics
    hand_over(context, topic)
    _follow(spark, PipelineContext.require(loaded), topic.name)


def _follow(spark: SparkSession, context: PipelineContext, source: str) -> None:
    """Follow a topic until all its records, and the windows that they close, are committed."""
    reporter, stop = Reporter(context, source, "bench", None), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(run_unbounded, spark, context, source, reporter, stop)
        try:
            while not (followed.done() or _has_read_all(spark)):
                time.sleep(_POLL_S)
        finally:
            stop.set()
        followed.result()


def _has_read_all(spark: SparkSession) -> bool:
    """Wait until the running query has nothing left to do; False if it is exchanged meanwhile."""
    for query in spark.streams.active:
        query.processAllAvailable()
        return query.isActive
    return False


def _last_commit_ms(loaded: LoadedPipeline) -> int:
    """Return when the last micro-batch was committed, in ms since 1970."""
    checkpoint = loaded.require_generation().checkpoint
    last = offset_log.last_committed(checkpoint)
    committed_ms = None if last is None else offset_log.committed_at_ms(checkpoint, last)
    assert committed_ms is not None
    return committed_ms


if __name__ == "__main__":
    main()
