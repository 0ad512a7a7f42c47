"""Watching of a running query: how often, what stops it, and which error of its end is raised."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sources.captured_tables import require_unaltered
from sources.common.counting import counted
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.reports.collect_bad_records import Collectors
from spark_jobs.inside.driver.reports.query_reporter import QueryReporter
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.filled_state import filling_state
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.query.seam.duplicate_filters import OlderThanKeysError
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.query.streaming_query import RunningQuery

# A driver that is killed between a commit and the next of these looks has not counted the late rows
# of that micro-batch. And a query that reads one small micro-batch is followed by another at once.
_SOON_S = 0.1


def start(
    spark: SparkSession, query: QueryDeclaration, reporter: Reporter, report: QueryReporter
) -> RunningQuery:
    """Build a query and start it in Spark; returns at once, while the query runs on.

    Warnings about the query go to the reporter, which also gets its late rows if it has a
    watermark.

    Args:
        spark: The Spark session.
        query: Declaration of the query.
        reporter: Reporter of the launch.
        report: Reporter of this query.

    Raises:
        InputError: The transform does not fit, or planned files changed.
        SeamError: Records to be read are no longer in Kafka, or rows of the seam would be counted
            twice.
        StateError: Checkpoint, state and target do not belong together.
        UnavailableError: A broker, a store or the catalog does not answer.
    """
    built = build_query(spark, query)
    report.started(built.stream)
    for warning in built.warnings:
        reporter.listeners.warn(warning)
    if built.has_watermark:
        # Before the query commits anything.
        report.count_late_rows(query)
    with filling_state(spark, query):
        return RunningQuery(query, built)


def collect_bad_records(context: PipelineContext, reporter: Reporter) -> Collectors:
    """Collect bad records that an earlier run has staged, before a query is started.

    Their number is reported in the heartbeat.

    Returns:
        The collectors of all sources, for use while the query runs.

    Raises:
        InputError, StateError, UnavailableError: As :meth:`Collectors.collect`, or the heartbeat
            can't be written.
    """
    collectors = Collectors(context.pipeline, context.generation)
    reporter.bad_records(collectors.collect())
    return collectors


def watch(
    running: RunningQuery,
    report: QueryReporter,
    reporter: Reporter,
    bad_records: Collectors,
    stop: threading.Event,
    is_over: Callable[[], bool],
) -> None:
    """Watch a running query until it ends, report its progress, and stop it when it has to end.

    Blocks. It looks at the query about once a second; if the state is in a store where each look is
    a request, every 10 s and after each commit. Whatever happens, the query has stopped when it
    returns or raises.

    The error that is raised is the first one: where the query fails, or a look, what the last
    reports meet after it is left out, as they often fail for the same reason.

    Args:
        running: The query.
        report: Reporter of this query.
        reporter: Reporter of the launch.
        bad_records: Collectors of the bad records that tasks stage.
        stop: Event that stops the query.
        is_over: Called before each look; True stops the query.

    Raises:
        StateError: A later launch has replaced this one, the driver's lease is lost, checkpoint,
            state and target do not belong together any more, or the state is damaged, or can't be
            written.
        SeamError: Kafka will soon delete records that are read after history.
        InputError: The captured table was altered, or a quarantine table can't be written.
        UnavailableError: The store of the state or of a table does not answer.
        StreamingQueryException: The query failed in Spark.
    """
    query = running.spark_query
    captures = running.declared.context.pipeline.captures_tables
    try:
        while query.isActive and not (stop.is_set() or is_over()):
            if captures:
                require_unaltered(running.declared.generation)
            if not reporter.has_lease() and reporter.is_replaced():
                source = running.declared.source.name
                message = (
                    f"Another driver was launched while this one, which reads source `{source}`, "
                    "ran. This driver stops its query now."
                )
                hint = (
                    "Nothing is lost: the newer driver resumes after the last committed "
                    "micro-batch. `hybrid status P` shows whether it runs."
                )
                raise StateError(message, hint, source=source)
            reporter.require_lock()
            _wait(running, report, stop, reporter)
            committed = report.progress(running)
            report.seam(running)
            reporter.bad_records(bad_records.collect())
            running.guard.look(committed)
    except BaseException:
        with contextlib.suppress(Exception):
            _stop(query)
        with contextlib.suppress(Exception):
            _report_end(running, report, reporter, bad_records)
        raise
    interrupts = _stop(query)
    try:
        _report_end(running, report, reporter, bad_records)
    except Exception:
        _await_end(query, interrupts, reporter)
        raise
    _await_end(query, interrupts, reporter)
    report.progress(running)
    running.guard.look()
    running.guard.keep()


def _stop(query: StreamingQuery) -> bool:
    """Stop a query; return whether it ran, so that the stop may have interrupted it."""
    if was_active := query.isActive:
        query.stop()
    return was_active


def _await_end(query: StreamingQuery, was_interrupted: bool, reporter: Reporter) -> None:
    """Wait until a query has ended; what only the stop made fail is logged and not raised.

    Spark takes what its own stop interrupts for no failure, but knows only some of the exceptions
    that an interrupted thread raises (StreamExecution.isInterruptionException). A failure that has
    a reason of its own, like a bad record, is raised.
    """
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if not was_interrupted or (failure := report_of(error)).kind != "spark":
            raise
        reporter.listeners.log(
            f"Stopping the query interrupted Spark: {failure.message} What was not committed is "
            "read again by the next query."
        )


def _report_end(
    running: RunningQuery, report: QueryReporter, reporter: Reporter, bad_records: Collectors
) -> None:
    """Report what a query that has stopped leaves to be counted."""
    reporter.bad_records(bad_records.collect())
    report.late_rows(running)
    report.seam(running)


def _wait(
    running: RunningQuery, report: QueryReporter, stop: threading.Event, reporter: Reporter
) -> None:
    """Wait until the next look is due, or the query ends or has to; count late rows meanwhile."""
    query, is_first = running.spark_query, running.stream.is_first
    beat_s, pace_s = reporter.beats.every_s, reporter.pace_s
    step = min(beat_s, _SOON_S) if running.has_watermark or is_first else beat_s
    begun, seen = time.monotonic(), _progress_at(query)
    while (waited := time.monotonic() - begun) < pace_s and not stop.is_set():
        # PySpark multiplies it by 1000, and Spark refuses 0 ms.
        left_s = max(min(step, pace_s - waited), 0.001)
        if query.awaitTermination(left_s):  # type: ignore[arg-type]
            return
        report.late_rows(running)
        if (is_first or waited >= beat_s) and _progress_at(query) != seen:
            return


def _progress_at(query: StreamingQuery) -> str | None:
    """Return when the last micro-batch began; None before the first one's end."""
    latest = query.lastProgress
    return None if latest is None else str(latest["timestamp"])


def look_up_older(
    spark: SparkSession, seams: Sequence[Seam], reporter: Reporter, error: StreamingQueryException
) -> None:
    """Search all of history for rows of the seam that are older than the keys kept of history.

    Call it with a query's failure; any other failure is raised again. Otherwise the caller builds
    the query again, which then knows all such rows and can't fail for this reason a second time.

    Args:
        spark: The Spark session.
        seams: The seams (the offsets in which live rows may repeat history) of the sources that the
            query reads; empty for none.
        reporter: Gets a line with the number of rows that history holds.
        error: Failure of the query.

    Raises:
        StreamingQueryException: The failure as given, if it has another reason.
        InputError: A planned file of history is missing or was rewritten.
        SeamError: Kafka has deleted records of history, or history holds the key of such a row with
            other values only.
        UnavailableError: A storage does not answer.
    """
    if not seams or report_of(error).kind != OlderThanKeysError.kind:
        raise error
    count = sum(seam.look_up_older(spark) for seam in seams if seam.rule == "key")
    reporter.listeners.log(
        f"{counted(count, 'row of the seam is', 'rows of the seam are')} older than the keys kept "
        "of history, which holds such rows, too: removed. The query starts again."
    )


def count_seam(spark: SparkSession, seam: Seam, reporter: Reporter) -> None:
    """Count the rows of a passed seam and those that were removed, and record both for the ledger.

    Called in a thread once the seam is passed. The ledger (the proof that the hand-over lost and
    duplicated nothing) is complete with them. A failure is reported as a warning and never raised.
    """
    try:
        seen = seam.count(spark, reporter.seam_metrics)
    except Exception as error:
        reporter.listeners.warn(
            "The rows of the seam can't be counted, so the ledger lacks them; the run continues: "
            f"{report_of(error)}"
        )
        return
    read, removed = sum(seen.rows.values()), sum(seen.removed.values())
    reporter.listeners.log(
        f"{seen.source}: the seam is passed; {removed:,} of its {counted(read, 'row')} removed."
    )
