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
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.session import session
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.driver.bounded_run import FINISHED, run_bounded
from spark_jobs.driver.reporter import Reporter
from spark_jobs.query.builder import build_query
from spark_jobs.query.declaration import declare_query


def main() -> None:
    """Answer lines until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Spark prints is no answer
    spark: SparkSession | None = None
    for line in sys.stdin:
        loaded = load_pipeline(Path(json.loads(line)["pipeline"]))
        spark = spark or session(loaded, Path(sys.argv[1]))
        started = time.monotonic()
        run(spark, loaded)
        answers.write(json.dumps({"seconds": time.monotonic() - started}) + "\n")
    if spark is not None:
        spark.stop()


def run(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan a pipeline of one source, and read all that is there as its driver would.

    Raises:
        RuntimeError: Files were not read to their end.
    """
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    if not loaded.pipeline.topics:
        reporter = Reporter(context, "history", "bench", None)
        if run_bounded(spark, context, "history", reporter, threading.Event()) != FINISHED:
            message = "The files were not read to their end."
            raise RuntimeError(message)
        return
    (topic,) = loaded.pipeline.topics
    hand_over(context, topic)
    query = build_query(spark, declare_query(PipelineContext.require(loaded), topic.name))
    running = query.writer.start()
    running.processAllAvailable()
    running.stop()


if __name__ == "__main__":
    main()
