"""Partitions of a live topic that are far apart in time lose no row behind the watermark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from orchestration.supervision.late_row_findings import late_rows, look_at_late_rows
from orchestration.supervision.live_look import look_at_live
from sources.common.positions import TopicPartition
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import Case, as_json, kill_driver, live_of, moment, start_live, wrong
from tests.e2e.in_session import fails_with, run_chain, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
TRANSFORM = """
from pyspark.sql import functions as F

def ten_minutes(rows):
    return (
        rows.withWatermark("at", "10 minutes").groupBy(F.window("at", "10 minutes"))
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .select(F.col("window.start").alias("start"), "n", "total")
    )
"""
SQL = """
SELECT to_timestamp(floor(epoch("at") / 600) * 600) AS start, count(*) AS n, sum(v) AS total
FROM input GROUP BY ALL
"""
FAST, SLOW = 0, 1


class Apart(Case):
    """History up to minute 100; then partition 0 in time, and partition 1 forty minutes behind."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, servers, partitions=2)
        (folder / "windowed.py").write_text(TRANSFORM)
        (folder / "windowed.sql").write_text(SQL)
        self.write_history(range(100), files=1)

    def send(self, partition: int, numbers: Iterable[int]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for n in numbers:
            timestamp = int(moment(n).timestamp() * 1000)
            producer.produce(self.topic, as_json(n), partition=partition, timestamp=timestamp)
        assert producer.flush(30) == 0

    def windows(self, align: dict[str, str] | None, **live: object) -> LoadedPipeline:
        def edit(document: dict[str, Any]) -> None:
            document["transform"] = "windowed:ten_minutes"
            document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}
            document["audit"] = {"sql": "windowed.sql"}
            document["sources"][1] |= {**live, **({} if align is None else {"align": align})}

        return self.pipeline(edit)


def read_of(loaded: LoadedPipeline, case: Apart, partition: int) -> int | None:
    """The first offset of a partition that the live run has not committed."""
    beat = read_heartbeat(loaded.require_generation(), "live")
    offsets = {} if beat is None else beat.offsets or {}
    return offsets.get(TopicPartition(case.topic, partition))


def holding(loaded: LoadedPipeline, case: Apart, *ends: int) -> Heartbeat | None:
    """The heartbeat, if the run has read each partition up to there and holds the rest back."""
    beat = read_heartbeat(loaded.require_generation(), "live")
    if beat is None or not beat.held_offsets:
        return None
    offsets = beat.offsets or {}
    reached = [offsets.get(TopicPartition(case.topic, n)) for n in range(len(ends))]
    return beat if reached == [*ends] else None


@contextmanager
def once_held(loaded: LoadedPipeline, case: Apart, *ends: int) -> Iterator[list[Heartbeat]]:
    """Meanwhile, once the live run has read up to there and holds the rest: send what is behind.

    Yields:
        A list that gets the heartbeat of that moment.
    """
    seen: list[Heartbeat] = []

    def send() -> None:
        try:
            wait_for(lambda: holding(loaded, case, *ends) is not None, "what is held", 300)
            seen.extend(filter(None, [holding(loaded, case, *ends)]))
        finally:
            case.send(SLOW, range(261, 300, 2))

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send)
        yield seen
        sent.result()


# In partition 0 lie the even minutes, in partition 1 the odd ones.
def test_a_partition_forty_minutes_behind_loses_no_row(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 140, 2))
    case.send(SLOW, range(101, 140, 2))
    # A checkpoint from before anything was declared.
    run_chain(spark, case.windows(None))
    case.send(FAST, range(140, 300, 2))
    case.send(SLOW, range(141, 260, 2))
    # The backlog takes several micro-batches.
    loaded = case.windows({"drift": "10 min", "idle": "10 min"}, max_offsets_per_batch=60)
    # The last odd minute is 259: of the other partition is read what lies before minute 269.
    with once_held(loaded, case, 85, 80) as seen:
        last = run_live(spark, loaded)
    report = audit(loaded)
    assert (report.outcome, wrong(report)) == ("passed", {})
    assert report.input_rows.distinct == 300
    assert (last.late_rows, last.held_offsets, last.drift_ms) == (0, 0, 60_000)
    assert [(beat.drift_ms, beat.held_offsets) for beat in seen] == [(39 * 60_000, 15)]


def test_without_a_declaration_rows_are_late_and_the_status_says_what_to_declare(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 300, 2))
    case.send(SLOW, range(101, 260, 2))
    loaded = case.windows(None)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def send_what_is_behind() -> None:
        # Spark drops by the watermark of the micro-batch before.
        for n in (300, 302):
            case.send(FAST, [n])
            wait_for(lambda: read_of(loaded, case, FAST) == n // 2 - 49, "the newest record", 300)  # noqa: B023
        case.send(SLOW, range(261, 300, 2))

    run_live(spark, loaded, meanwhile=send_what_is_behind)
    assert wrong(audit(loaded)).get("different", 0) >= 2
    late = look_at_late_rows(loaded, loaded.require_generation(), now_ms())
    found = late_rows(late, loaded.pipeline.supervision.late_rows)
    assert not found.passed
    assert "declare `align: {drift: …}` for source `live`" in found.text


def test_an_idle_partition_holds_the_others_no_longer_than_declared(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 300, 2))
    case.send(SLOW, range(101, 260, 2))
    loaded = case.windows({"drift": "10 min", "idle": "3 s"})
    # It returns once all is read.
    run_chain(spark, loaded)
    assert wrong(audit(loaded)) == {}


def test_a_drift_beyond_the_delay_of_the_watermark_is_refused(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 300, 2))
    told = "`align.drift: 20 min` is longer than the delay of the transform's watermark, 10 min"
    with fails_with(told):
        run_history(spark, case.windows({"drift": "20 min"}))


@pytest.mark.crash
def test_a_driver_that_is_killed_while_it_holds_records_goes_on_exactly(
    tmp_path: Path, servers: str
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 300, 2))
    case.send(SLOW, range(101, 260, 2))
    loaded = case.windows({"drift": "10 min", "idle": "10 min"}, max_offsets_per_batch=60)
    try:
        start_live(loaded)
        wait_for(lambda: holding(loaded, case, 85, 80) is not None, "what is held", 300)
        look = look_at_live(loaded, loaded.require_generation())
        kill_driver(loaded)
        case.send(SLOW, range(261, 300, 2))
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_until_caught_up(PipelineContext.require(loaded))
        beat = read_heartbeat(loaded.require_generation(), "live")
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.outcome, wrong(report)) == ("passed", {})
    assert beat is not None
    assert beat.late_rows == 0
    assert look is not None
    verdict = look.verdict
    assert verdict.health == "healthy"
    assert verdict.numbers["partition_drift_s"] == 39 * 60
    assert (verdict.numbers["held_offsets"], verdict.numbers["lag"]) == (15, 15)
    text = "15 of them until the slowest partition is as far; the fastest is 39 min ahead of it"
    assert text in next(each.text for each in verdict.findings if each.name == "lag")
