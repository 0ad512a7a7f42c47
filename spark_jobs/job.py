"""The Spark job: reads sources of a pipeline, one after the other, in one driver.

It continues from each source to the next by itself: see :mod:`spark_jobs.driver.switch`.

Started by ``spark-submit``, also by hand::

    spark-submit spark_jobs/job.py --pipeline pipeline.yaml --source history --launch-id by-hand

Exit status 0: finished (bounded) or stopped (unbounded); 1: failed; 2: invalid input or state;
3: a bounded run was stopped before its end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from sources.config.file_source import FileSource
from sources.config.loader import load_pipeline
from sources.errors import ErrorReport, HybridError, UnavailableError
from sources.hybrid import Boundedness
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from spark_jobs.driver.bounded_run import run_bounded
from spark_jobs.driver.reporter import Reporter, open_pipes
from spark_jobs.driver.switch import switch
from spark_jobs.driver.unbounded_run import run_unbounded
from spark_jobs.driver.warm_up import Ahead
from spark_jobs.jvm.storage_jar import use_own_classes
from spark_jobs.query.followed_topic import Prepared
from spark_jobs.readers.spark_errors import report_of
from spark_jobs.readers.unreadable_file import is_of_store
from spark_jobs.run_state.lock import QueryLock
from spark_jobs.target.belonging import require_belonging


def main(arguments: list[str]) -> int:
    """Run the job.

    Args:
        arguments: Command line: ``--pipeline FILE``, ``--source NAME`` once for each source to be
            read in turn, ``--launch-id ID``.

    Returns:
        Exit status: 0 finished or stopped, 2 an error of this project, such as invalid input or
        state, 3 a bounded run was stopped before its end.

    Raises:
        Exception: Whatever made a query fail that is no error of this project; Python then exits
            with status 1.
    """
    parser = argparse.ArgumentParser(description="Read sources of a pipeline, one by one.")
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--launch-id", required=True)
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        context = PipelineContext.require(load_pipeline(options.pipeline))
        # A job may be started by hand, too.
        require_approved(context)
        with QueryLock(context.generation, options.launch_id) as lock:
            require_belonging(context.loaded, context.generation)
            return _run_all(context, options.source, options.launch_id, stop, lock)
    except HybridError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2


def _run_all(
    context: PipelineContext,
    sources: Sequence[str],
    launch_id: str,
    stop: threading.Event,
    lock: QueryLock,
) -> int:
    """Read sources one after the other until one fails, is stopped, or may not be read yet."""
    status = 0
    ahead: Ahead | None = None
    for source, following in zip(sources, [*sources[1:], None], strict=True):
        is_first = source == sources[0]
        if not is_first and not switch(context, launch_id, source):
            break
        # The Dagster step that launched this job is about the first source only.
        with (open_pipes() if is_first else None) or nullcontext() as pipes:
            reporter = Reporter(context, source, launch_id, pipes, lock)
            prepared = None if ahead is None else ahead.prepared
            ahead = _ahead(context, source, is_same_driver=following is not None)
            status = _run(context, source, reporter, stop, ahead, prepared)
        if status or stop.is_set():
            break
    return status


def _ahead(context: PipelineContext, source: str, *, is_same_driver: bool) -> Ahead | None:
    """Return the source after this one if it is a followed topic: what to prepare for."""
    topic = context.pipeline.topic_after(source)
    if topic is None or topic is not context.pipeline.source_after(source):
        return None
    is_followed = topic.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    return Ahead(topic, is_same_driver) if is_followed else None


def _run(
    context: PipelineContext,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    ahead: Ahead | None,
    prepared: Prepared | None,
) -> int:
    try:
        # State and target are paths of the machines, whatever file system HADOOP_CONF_DIR makes the
        # default. `spark-submit` may need that default on a cluster, so it is changed only here.
        builder = SparkSession.builder.config("spark.hadoop.fs.defaultFS", "file:///")
        spark = builder.getOrCreate()
        use_own_classes(spark)
        if context.pipeline.source(source).boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            return run_unbounded(spark, context, source, reporter, stop, prepared)
        return run_bounded(spark, context, source, reporter, stop, ahead)
    except Exception as error:
        reporter.failed(_report_of(error, context))
        raise


def _report_of(error: Exception, context: PipelineContext) -> ErrorReport:
    """Return the report of a failure; that of the store, if it does not answer or let us in.

    Answers to S3A's commonest request have no body, so its errors don't say why.
    """
    if is_of_store(error):
        loaded, stores = context.loaded, context.pipeline.stores
        sources = [each for each in context.pipeline.sources if isinstance(each, FileSource)]
        paths = [loaded.state.url, loaded.target.url, *(p for s in sources for p in s.patterns)]
        try:
            for path in paths:
                if path.startswith("s3://"):
                    stores.require_answer(path)
        except UnavailableError as unavailable:
            return unavailable.report()
    return report_of(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
