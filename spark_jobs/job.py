"""The Spark job: runs one source of a pipeline to its end, or for ever.

Of several, it goes on from each to the next by itself: see :mod:`spark_jobs.driver.switch`.

Started by ``spark-submit``, by hand too::

    spark-submit spark_jobs/job.py --pipeline pipeline.yaml --source history --launch-id by-hand

Exit status 0: finished (bounded) or stopped (unbounded); 1: failed; 2: bad input or state;
3: a bounded run was stopped before its end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, RunError, StateError
from sources.hybrid import Boundedness
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.rounds import next_round
from spark_jobs.checkpoint.transform_history import explain_refusal
from spark_jobs.driver.discoverer import Discoverer
from spark_jobs.driver.reporter import Reporter, open_pipes
from spark_jobs.driver.retention_guard import RetentionGuard
from spark_jobs.driver.switch import switch
from spark_jobs.driver.warm_up import Ahead, rehearsal
from spark_jobs.query.bad_records import Collectors
from spark_jobs.query.seam_filter import OLDER_ROW
from spark_jobs.query.streaming_query import Prepared, Query
from spark_jobs.run_state.lock import QueryLock

POLL_S = 1
INCOMPLETE = 3


def main(arguments: list[str]) -> int:
    """Run the job; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run sources of a pipeline, one by one.")
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--launch-id", required=True)
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        loaded = load_pipeline(options.pipeline)
        generation = loaded.require_generation()
        # A job may be started by hand too.
        require_approved(PipelineContext(loaded, generation))
        with QueryLock(generation):
            return _run_all(loaded, generation, options.source, options.launch_id, stop)
    except HybridError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2


def _run_all(
    loaded: LoadedPipeline,
    generation: Generation,
    sources: Sequence[str],
    launch_id: str,
    stop: threading.Event,
) -> int:
    """Run sources one after the other, as far as that goes."""
    status = 0
    ahead: Ahead | None = None
    for source, following in zip(sources, [*sources[1:], None], strict=True):
        is_first = source == sources[0]
        if not is_first and not switch(loaded, generation, launch_id, source):
            break
        # The step that launched this is about the first source only.
        with (open_pipes() if is_first else None) or nullcontext() as pipes:
            bounded = loaded.pipeline.source(source).boundedness is Boundedness.BOUNDED
            reporter = Reporter(generation, source, launch_id, pipes, bounded=bounded)
            prepared = None if ahead is None else ahead.prepared
            ahead = _ahead(loaded, source, is_same_driver=following is not None)
            status = _run(loaded, source, reporter, stop, ahead, prepared)
        if status or stop.is_set():
            break
    return status


def _ahead(loaded: LoadedPipeline, source: str, *, is_same_driver: bool) -> Ahead | None:
    """What can be made ready for the source after a bounded one: a topic to be followed."""
    place = loaded.pipeline.hybrid_source().index(source)
    for after in loaded.pipeline.sources[place + 1 : place + 2]:
        is_live = after.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        if isinstance(after, KafkaSource) and is_live:
            return Ahead(after, is_same_driver)
    return None


def _run(
    loaded: LoadedPipeline,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    ahead: Ahead | None,
    prepared: Prepared | None,
) -> int:
    pipeline = loaded.pipeline
    try:
        # State and target lie on paths of the machines, whatever HADOOP_CONF_DIR takes for the
        # default; where that is a cluster's, the default is left alone until here.
        builder = SparkSession.builder.config("spark.hadoop.fs.defaultFS", "file:///")
        spark = builder.getOrCreate()
        if pipeline.source(source).boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            return run_unbounded(spark, loaded, source, reporter, stop, prepared)
        return run_bounded(spark, loaded, source, reporter, stop, ahead)
    except Exception as error:
        reporter.failed(cause_of(error))
        raise


def run_bounded(
    spark: SparkSession,
    loaded: LoadedPipeline,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    ahead: Ahead | None = None,
) -> int:
    """Read a bounded source to its end, rounds included, and record its end position.

    Args:
        spark: The session.
        loaded: The pipeline.
        source: Name of the source.
        reporter: Tells of it.
        stop: Set to end it before.
        ahead: What comes next, if that is a topic to be followed.
    """
    generation = loaded.require_generation()
    declared = loaded.pipeline.source(source)
    while True:
        with reporter.at_work():
            query = Query(spark, loaded, generation, source)
            reporter.follow(query)
            guard = RetentionGuard(loaded, generation, query, reporter)
            bad = _bad_records(loaded, generation, reporter)

        def is_over(query: Query = query, guard: RetentionGuard = guard) -> bool:
            return guard.look() or query.has_new_rate() or (query.is_paced and query.is_drained())

        try:
            with reporter.at_work():
                running = _start(query, reporter)
            with rehearsal(query, ahead):
                _watch(running, reporter, stop, is_over, bad)
        except StreamingQueryException as error:
            with reporter.at_work():
                _look_up_older(query, reporter, error)
            continue
        if not query.is_drained():
            if stop.is_set():
                reporter.ended("stopped")
                return INCOMPLETE
            if query.has_new_rate():
                continue
            message = f"Source `{source}`: the run ended with planned splits unread."
            raise RunError(message, "Run it again: it goes on where it ended.")
        if query.is_paced:
            # Once more, as it is: a last micro-batch without data may be due.
            continue
        made = None
        with reporter.at_work():
            if isinstance(declared, FileSource):
                made = next_round(PipelineContext(loaded, generation), declared)
            elif query.has_uncounted_seam():
                _count_seam(query, reporter)
        if made is None:
            assert query.end is not None
            query.enumerator.finish(query.end)
            reporter.ended("finished")
            return 0
        reporter.log(f"{source}: round {made.number}, {made.files.splits} files more: {made.why}")
        if made.behind_ms:
            reporter.warn(
                f"Files of round {made.number} reach back {made.behind_ms / 1000:,.0f} s behind "
                "what was read; a watermark delay below that can drop rows."
            )


def run_unbounded(
    spark: SparkSession,
    loaded: LoadedPipeline,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    prepared: Prepared | None = None,
) -> int:
    """Follow a topic or a folder until told to stop.

    The query is built anew when another one is due, as when the seam is passed.

    Args:
        spark: The session.
        loaded: The pipeline.
        source: Name of the source.
        reporter: Tells of it.
        stop: Set to end it.
        prepared: What the same driver made for the first query.
    """
    generation = loaded.require_generation()
    while not stop.is_set():
        query = Query(spark, loaded, generation, source, prepared)
        # Made of what is known now, a second one may be another.
        prepared = None
        reporter.follow(query)
        bad = _bad_records(loaded, generation, reporter)
        # The target may get columns, which can take long.
        with reporter.at_work():
            running = _start(query, reporter)
        if query.has_uncounted_seam():
            # Beside the stream, which does not wait for it.
            threading.Thread(target=_count_seam, args=(query, reporter), daemon=True).start()
        try:
            with _discovery(query) as discoverer:

                def is_over(query: Query = query, found: Discoverer | None = discoverer) -> bool:
                    _take_in(query, found, reporter)
                    return query.is_to_be_rebuilt()

                _watch(running, reporter, stop, is_over, bad)
        except StreamingQueryException as error:
            _look_up_older(query, reporter, error)
    reporter.ended("stopped")
    return 0


def _start(query: Query, reporter: Reporter) -> StreamingQuery:
    running = query.writer().start()
    if query.changed is not None:
        reporter.warn(query.changed)
    return running


def _discovery(query: Query) -> AbstractContextManager[Discoverer | None]:
    """What looks for files that arrive, if the query follows a folder."""
    return nullcontext() if query.folder is None else Discoverer(query.folder)


def _take_in(query: Query, discoverer: Discoverer | None, reporter: Reporter) -> None:
    """Hand what was discovered to the running query."""
    while discoverer is not None and (found := discoverer.take()) is not None:
        query.take_in(found)
        reporter.log(f"{found.source}: {found.splits:,} splits arrived, {found.bytes:,} bytes")


def _bad_records(loaded: LoadedPipeline, generation: Generation, reporter: Reporter) -> Collectors:
    """What collects bad records; those that the run before has left are taken in."""
    collectors = Collectors(loaded.pipeline, generation)
    reporter.bad_records(collectors.collect())
    return collectors


def _look_up_older(query: Query, reporter: Reporter, error: StreamingQueryException) -> None:
    """Look up rows of the seam that are older than the kept keys, if that is what went wrong.

    Once, then the run goes on. A second time is impossible: the filter then knows all of them.
    """
    if OLDER_ROW not in cause_of(error):
        raise error
    count = query.look_up_older()
    reporter.log(f"{count} rows of the seam are older than the kept keys and in history")


def _count_seam(query: Query, reporter: Reporter) -> None:
    """Complete the ledger; the stream goes on whether or not that works."""
    try:
        counted = query.count_seam()
    except Exception as error:
        reporter.warn(f"The seam can't be counted: {cause_of(error)}")
        return
    read, removed = sum(counted.rows.values()), sum(counted.removed.values())
    reporter.log(f"{counted.source}: past the seam; {removed:,} of its {read:,} rows were removed")


def _watch(
    running: StreamingQuery,
    reporter: Reporter,
    stop: threading.Event,
    is_over: Callable[[], bool],
    bad: Collectors,
) -> None:
    """Report until the query ends or has to; raises what made it fail.

    Raises:
        StateError: Another run was launched meanwhile.
    """
    try:
        while running.isActive and not stop.is_set() and not is_over():
            if reporter.is_replaced():
                message = "This driver was taken for dead: another one was launched."
                raise StateError(message, "Nothing is to be done: the other one goes on.")
            running.awaitTermination(POLL_S)
            reporter.progress(running)
            reporter.bad_records(bad.collect())
    finally:
        if running.isActive:
            running.stop()
        reporter.bad_records(bad.collect())
    running.awaitTermination()
    reporter.progress(running)


def cause_of(error: BaseException) -> str:
    """The part of an error that people need: ours as it is, Spark's without its plans."""
    text = str(error)
    if isinstance(error, HybridError):
        return text
    text = text.split("=== Streaming Query ===", maxsplit=1)[0]
    below: BaseException | None = error
    while (below := getattr(below, "_cause", None)) is not None:
        # That a task failed while it wrote is told without why.
        if getattr(below, "_cause", None) is None and str(below) not in text:
            text = f"{text.rstrip()}\n{below}"
    return explain_refusal(text) or text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
