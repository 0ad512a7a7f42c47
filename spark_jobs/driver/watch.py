"""Watching a running query, and what both bounded and unbounded runs do around it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.driver.collector import Collectors
from spark_jobs.driver.reporter import QueryReporter, Reporter
from spark_jobs.query.builder import build_query
from spark_jobs.query.declaration import QueryDeclaration
from spark_jobs.query.seam import Seam
from spark_jobs.query.seam_filter import OlderThanKeysError
from spark_jobs.query.streaming_query import RunningQuery
from spark_jobs.readers.spark_errors import report_of

POLL_S = 1


def start(
    spark: SparkSession, query: QueryDeclaration, reporter: Reporter, report: QueryReporter
) -> RunningQuery:
    """Build a query and start it."""
    built = build_query(spark, query)
    report.started(built.stream)
    running = RunningQuery(query, built)
    if built.changed is not None:
        reporter.listeners.warn(built.changed)
    return running


def collect_bad_records(context: PipelineContext, reporter: Reporter) -> Collectors:
    """Collect the bad records that an earlier run has staged; return the collectors."""
    collectors = Collectors(context.pipeline, context.generation)
    reporter.bad_records(collectors.collect())
    return collectors


def watch(
    running: RunningQuery,
    report: QueryReporter,
    reporter: Reporter,
    bad_records: Collectors,
    ends: Callable[[], bool],
) -> None:
    """Report until the query ends, or ``ends`` tells to stop it; raise what made it fail.

    Raises:
        StateError: Another run was launched meanwhile.
    """
    query = running.spark_query
    try:
        while query.isActive and not ends():
            if reporter.is_replaced():
                source = running.declared.source.name
                message = (
                    f"This driver, which reads source `{source}`, was taken for dead, and another "
                    "one was launched. This driver stops its query now."
                )
                hint = (
                    "Nothing needs to be done: the newer driver resumes from the last committed "
                    "micro-batch, and each micro-batch is written once."
                )
                raise StateError(message, hint, source=source)
            query.awaitTermination(POLL_S)
            report.progress(running)
            reporter.bad_records(bad_records.collect())
    finally:
        if query.isActive:
            query.stop()
        reporter.bad_records(bad_records.collect())
    query.awaitTermination()
    report.progress(running)


def look_up_older(
    spark: SparkSession, seam: Seam | None, reporter: Reporter, error: StreamingQueryException
) -> None:
    """Look up the rows of the seam that are older than the kept keys, if the query met one.

    The query is started again after that. It cannot fail like this a second time: the filter then
    knows all such rows.

    Raises:
        StreamingQueryException: The query failed for another reason.
    """
    if seam is None or report_of(error).kind != OlderThanKeysError.kind:
        raise error
    count = seam.look_up_older(spark)
    reporter.listeners.log(
        f"{count:,} rows of the seam are older than the keys kept of history, and history holds "
        "them: they are removed. The query starts again."
    )


def count_seam(spark: SparkSession, seam: Seam, reporter: Reporter) -> None:
    """Complete the ledger by the counts of a seam; a failure is a warning, the run continues."""
    try:
        counted = seam.count(spark)
    except Exception as error:
        reporter.listeners.warn(
            "The rows of the seam can't be counted, so the ledger lacks them; the run continues: "
            f"{report_of(error)}"
        )
        return
    read, removed = sum(counted.rows.values()), sum(counted.removed.values())
    reporter.listeners.log(
        f"{counted.source}: the seam is passed; {removed:,} of its {read:,} rows were removed."
    )


def ends_when(stop: threading.Event, condition: Callable[[], bool]) -> Callable[[], bool]:
    """Return a condition that also holds once the run is told to stop."""
    return lambda: stop.is_set() or condition()
