"""The whole chain in one Spark session: the job's own code, without its process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from hybrid_testing.chain import QUICK, read_bounded
from orchestration.backlog import backlog_of
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.ledger import Ledger, read_ledger
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.unbounded_run import run_unbounded
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import live_of
from tests.services.processes import wait_for

DEADLINE_S = 480


@contextmanager
def fails_with(told: str) -> Iterator[None]:
    """A query in here fails, and what people are told of it says this."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 — whatever PySpark makes of it
        yield
    assert told in str(report_of(caught.value))


def run_history(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan, and read all bounded sources; a topic's after its hand-over."""
    read_bounded(spark, loaded)


def run_live(
    spark: SparkSession,
    loaded: LoadedPipeline,
    is_done: Callable[[Heartbeat], bool] = lambda _: True,
    meanwhile: Callable[[], None] = lambda: None,
) -> Heartbeat:
    """Follow the last source until it is read to its end, its seam counted, and ``is_done``.

    Then stop.

    Args:
        spark: The session.
        loaded: The pipeline.
        is_done: Asked with the heartbeat once nothing is left to read.
        meanwhile: Called when everything was read for the first time.

    Returns:
        The heartbeat when it was done.
    """
    source = loaded.pipeline.sources[-1]
    context = PipelineContext.require(loaded)
    reporter = Reporter(context, source.name, "test", None, beats=QUICK)
    stop = threading.Event()
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            run_unbounded(spark, context, source.name, reporter, stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    seen: list[Heartbeat] = []

    def is_behind(beat: Heartbeat) -> bool:
        if isinstance(source, KafkaSource) and beat.offsets is None:
            return True
        return backlog_of(PipelineContext.require(loaded)).waiting(beat) > 0

    def has_read_all() -> bool:
        if failures:
            raise failures[0]
        beat = read_heartbeat(context.generation, source.name)
        if beat is None or beat.state != "running" or is_behind(beat):
            return False
        seen.append(beat)
        return True

    try:
        wait_for(has_read_all, "the stream to read everything", DEADLINE_S)
        meanwhile()
        wait_for(
            lambda: has_read_all() and is_done(seen[-1]) and _is_counted(loaded),
            "the stream",
            DEADLINE_S,
        )
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
    return seen[-1]


def _is_counted(loaded: LoadedPipeline) -> bool:
    """Whether the rows of the seam are counted, if there is a filter that removes some."""
    ledger, count = read_ledger(loaded.require_generation(), loaded.pipeline.sources[-1].name)
    return ledger is None or not ledger.is_filtered or count is not None


def seam_is_counted(loaded: LoadedPipeline) -> Callable[[Heartbeat], bool]:
    """Whether the stream is past the seam, its filter gone and its ledger complete."""

    def is_counted(beat: Heartbeat) -> bool:
        _, count = read_ledger(loaded.require_generation(), live_of(loaded).name)
        return not beat.filtering and count is not None

    return is_counted


def run_chain(
    spark: SparkSession,
    loaded: LoadedPipeline,
    is_done: Callable[[Heartbeat], bool] = lambda _: True,
) -> Ledger:
    """All of it; returns the ledger of the hand-over."""
    run_history(spark, loaded)
    ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
    require_sound(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded, is_done)
    return ledger


def run_and_audit(spark: SparkSession, loaded: LoadedPipeline) -> AuditReport:
    """The whole chain until nothing is left to read, then the comparison."""
    run_chain(spark, loaded)
    # Without the extension, only what audits is skipped.
    from hybrid_extensions.audit.run import audit  # noqa: PLC0415

    return audit(loaded)
