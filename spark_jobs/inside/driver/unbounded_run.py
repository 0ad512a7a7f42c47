"""Run that follows a topic or folder until it is stopped, and when its query is built again."""

from __future__ import annotations

import threading
from contextlib import nullcontext, suppress

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sources.common.counting import counted
from sources.errors import InputError, UnavailableError
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.discoverer import Discoverer
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.schema_change import follow_columns_of
from spark_jobs.inside.driver.watch import (
    collect_bad_records,
    count_seam,
    look_up_older,
    start,
    watch,
)
from spark_jobs.inside.query.places.followed_topic_stream import Prepared
from spark_jobs.inside.query.places.place import Growing
from spark_jobs.inside.query.query_sources import QueryDeclaration, declare_query
from spark_jobs.inside.query.streaming_query import RunningQuery

STOPPED = 0


def run_unbounded(
    spark: SparkSession,
    context: PipelineContext,
    source: str,
    reporter: Reporter,
    stop: threading.Event,
    prepared: Prepared | None = None,
) -> int:
    """Follow a topic or a growing folder, the last source of the chain, until the run is stopped.

    Blocks. The query is built again, on the same checkpoint, when it would now be built
    differently: the seam filter is passed, another rate limit is in force, larger files have
    arrived, or columns are followed that the captured table got.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        source: Name of the source.
        reporter: Writer of the run's heartbeat.
        stop: Event that is set to stop the run.
        prepared: DataFrame of the source's rows that this driver built while history was still
            read; None if it did not. Used by the first query only.

    Returns:
        The job's exit status, 0.

    Raises:
        InputError: The transform does not fit, planned or new files can't be read, or a quarantine
            table can't be written.
        SeamError: Records to be read are no longer in Kafka, or a topic was created again.
        StateError: It is not this source's turn, or a later launch has replaced this one.
        UnavailableError: A broker, a store or the catalog does not answer.
        HybridError: Columns of the captured table changed in a way that can't be followed; with the
            reason.
        StreamingQueryException: The query failed in Spark.
    """
    while not stop.is_set():
        query = declare_query(context, source, prepared)
        # They fit the first query only: a later one may have to be different.
        prepared = None
        report = reporter.follow(spark, query)
        bad_records = collect_bad_records(context, reporter)
        for seam in query.seams_to_count():
            # In a thread: the stream does not wait for the count.
            arguments = (spark, seam, reporter)
            threading.Thread(target=count_seam, args=arguments, daemon=True).start()
        # The target may get new columns, which can take long.
        with reporter.at_work():
            running = start(spark, query, reporter, report)
        growing = query.growing
        try:
            with nullcontext() if growing is None else Discoverer(growing.folder) as discoverer:

                def is_over(
                    running: RunningQuery = running,
                    query: QueryDeclaration = query,
                    growing: Growing | None = growing,
                    discoverer: Discoverer | None = discoverer,
                ) -> bool:
                    if growing is not None and discoverer is not None:
                        _take_in(growing, discoverer, reporter)
                        if (told := query.settle()) is not None:
                            reporter.listeners.log(told)
                    return running.is_outdated()

                watch(running, report, reporter, bad_records, stop, is_over)
        except StreamingQueryException as error:
            # By the next start, which compares them, too, a truncated log may have grown again.
            with suppress(InputError, UnavailableError):
                query.require_same_logs()
            if (followed := follow_columns_of(context, error, reporter)) is not None:
                context = followed
            else:
                look_up_older(spark, query.seams, reporter, error)
    reporter.ended("stopped")
    return STOPPED


def _take_in(growing: Growing, discoverer: Discoverer, reporter: Reporter) -> None:
    """Pass what was discovered to the running query."""
    while (arrived := discoverer.take()) is not None:
        growing.take_in(arrived)
        reporter.listeners.log(
            f"{arrived.source}: {counted(arrived.splits, 'split')} arrived, "
            f"{counted(arrived.bytes, 'byte')}."
        )
