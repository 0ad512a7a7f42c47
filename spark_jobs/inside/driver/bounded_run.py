"""Run of a bounded source: read it to its end, with all rounds, and record the end position."""

from __future__ import annotations

import threading

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sources.common.counting import counted
from sources.common.durations import in_full
from sources.errors import RunError
from sources.planning.context import PipelineContext
from sources.planning.files.rounds import Round
from spark_jobs.inside.driver.reports.late_row_limit import require_no_late_rows
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.retention_guard import RetentionGuard
from spark_jobs.inside.driver.warm_up import Ahead, rehearsal
from spark_jobs.inside.driver.watch import (
    collect_bad_records,
    count_seam,
    look_up_older,
    start,
    watch,
)
from spark_jobs.inside.query.query_sources import QueryDeclaration, declare_query
from spark_jobs.inside.query.streaming_query import RunningQuery

FINISHED = 0
INCOMPLETE = 3


def run_bounded(
    spark: SparkSession,
    context: PipelineContext,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    ahead: Ahead | None = None,
) -> int:
    """Read a bounded source to its end, with all rounds, and record its end position.

    Blocks. The query is built again for each round (a further listing of the source's files), and
    whenever another rate limit is in force. What an earlier run committed is not read again.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        source: Name of the source.
        reporter: Writer of the run's heartbeat.
        stop: Event that is set to stop the run before its end.
        ahead: The topic that is followed next, which is prepared meanwhile; None if the next source
            is something else.

    Returns:
        The job's exit status: 0 if the source was read to its end, 3 if the run was stopped.

    Raises:
        RunError: The query ended with planned splits unread.
        InputError: The transform does not fit, planned files changed, or a quarantine table can't
            be written.
        SeamError: Records to be read are no longer in Kafka, or soon will not be.
        StateError: It is not this source's turn, the checkpoint or target belongs to another
            generation, a later launch has replaced this one, or more late rows were dropped behind
            the watermark than is declared.
        UnavailableError: A broker, a store or the catalog does not answer.
        StreamingQueryException: The query failed in Spark.
    """
    while True:
        if stop.is_set():
            # Maybe while Spark came up: to build a query and to end it takes long.
            reporter.ended("stopped")
            return INCOMPLETE
        with reporter.at_work():
            require_no_late_rows(context)
            query = declare_query(context, source)
        running = _read(spark, query, reporter, stop, ahead)
        require_no_late_rows(context)
        if running is None:
            continue
        if not query.is_drained():
            if stop.is_set():
                reporter.ended("stopped")
                return INCOMPLETE
            if query.has_new_rate():
                continue
            read = query.reached(query.committed).splits
            total = sum(end.splits for end in query.ends)
            message = (
                f"Source `{source}`: the query ended after {read or 0:,} of {total:,} planned "
                "splits. The rows of the others are not in the table yet."
            )
            hint = "Run the pipeline again: `hybrid run P`. It resumes after the splits read."
            raise RunError(message, hint, source=source)
        if running.is_paced:
            # Once more without a pace: a last micro-batch without data may be due.
            continue
        with reporter.at_work():
            rounds = [place.next_round() for place in query.read_places.values()]
            made = next((each for each in rounds if each is not None), None)
            query.require_same_logs()
            for seam in query.seams_to_count():
                count_seam(spark, seam, reporter)
        if made is None:
            ends = query.ends
            if len(ends) < len(query.read_places):
                message = (
                    f"Source `{source}` was read to the end of its plan, but the plan contains no "
                    "end position, so the next source can't be started. What was read stays in the "
                    "table."
                )
                hint = "Begin a new generation, which plans again: `hybrid generation new P`."
                raise RunError(message, hint, transient=False, source=source)
            for end in ends:
                context.switch_state.finish(end)
            reporter.ended("finished")
            return FINISHED
        _report_round(source, made, reporter)


def _read(
    spark: SparkSession,
    query: QueryDeclaration,
    reporter: Reporter,
    stop: threading.Event,
    ahead: Ahead | None,
) -> RunningQuery | None:
    """Run a query until it ends; None if it has to be built again."""
    context, name = query.context, query.source.name
    with reporter.at_work():
        report = reporter.follow(spark, query)
        guards = [RetentionGuard(context, each, reporter) for each in _guarded(context, name)]
        bad_records = collect_bad_records(context, reporter)
    try:
        with reporter.at_work():
            running = start(spark, query, reporter, report)

        def is_over() -> bool:
            for guard in guards:
                guard.look()
            require_no_late_rows(context)
            return running.is_over()

        with rehearsal(spark, query, ahead):
            watch(running, report, reporter, bad_records, stop, is_over)
    except StreamingQueryException as error:
        with reporter.at_work():
            look_up_older(spark, query.seams, reporter, error)
        return None
    return running


def _guarded(context: PipelineContext, name: str) -> list[str]:
    """Return the source that is read, and of each other input the one before its topic."""
    others = [chain for chain in context.pipeline.chains if all(s.name != name for s in chain)]
    return [name, *(chain[-2].name for chain in others if len(chain) > 1)]


def _report_round(source: str, made: Round, reporter: Reporter) -> None:
    more, why = counted(made.files.splits, "more split"), made.why.rstrip(".")
    reporter.listeners.log(f"{source}: round {made.number} reads {more}: {why}.")
    if made.behind_ms:
        reporter.listeners.warn(
            f"Source `{source}`: files of round {made.number} reach back "
            f"{in_full(made.behind_ms)} in event time behind what was read before. If the "
            "delay of the transform's `withWatermark` is shorter, stateful operators drop rows: "
            "raise it, or compute the table again (`hybrid rerun P`)."
        )
