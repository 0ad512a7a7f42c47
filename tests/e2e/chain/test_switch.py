"""The switch by the driver that has read history; cold ones are all over the other tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import bounded_run, chain_plan, live_run, stopping
from orchestration.supervision.status import status
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.warm_up import Ahead, expected_topic, rehearsal
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.query_sources import declare_query
from spark_jobs.inside.readers.topics import kafka_stream
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.runs import find_run
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.requested_state import read_requested
from tests.e2e.case import Case, history_of, live_of, windows, wrong
from tests.e2e.in_session import run_and_audit, run_history
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_one_driver_reads_history_hands_over_and_goes_live(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(windows)
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    try:
        end = bounded_run.run_bounded(
            PipelineContext.require(loaded), history_of(loaded), rest_requested=True
        )
        assert end.rows == 1000
        wanted = read_requested(generation)
        assert wanted is not None
        assert wanted.is_requested
        # Made by the driver; whoever asks for it later gets the same.
        made = hand_over(PipelineContext.require(loaded), live_of(loaded))
        beat = live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        assert hand_over(PipelineContext.require(loaded), live_of(loaded)) == made
        before = read_heartbeat(generation, "history")
        assert before is not None
        assert (before.launch_id, before.pid) == (beat.launch_id, beat.pid)
        assert [each.state for each in status(loaded).sources] == ["finished", "running"]
        case.produce(range(1200, 1300))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopped = stopping.stop(loaded)
    assert stopped == ["live"]
    # What was rehearsed is nowhere in the table, and the keys looked up for it were used.
    assert len(list(generation.path("seam/live").iterdir())) == 1
    report = audit(loaded)
    assert wrong(report) == {}
    assert report.expected > 0


@pytest.mark.parametrize("grown", [False, True], ids=["as planned", "a partition more"])
def test_rows_that_were_made_ahead_serve_only_where_nothing_has_changed(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, grown: bool
) -> None:
    case = Case(tmp_path, servers, partitions=1)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(windows)
    run_history(spark, loaded)
    context, live = PipelineContext.require(loaded), live_of(loaded)
    expected = expected_topic(declare_query(context, "history"), live)
    assert expected is not None
    prepared = expected.prepare(spark)
    if grown:
        case.grow(2)
        case.produce(range(1200, 1300))
    hand_over(PipelineContext.require(loaded), live)
    made: list[object] = []

    def stream_topics(*arguments: Any) -> DataFrame:
        made.append(arguments)
        return kafka_stream.stream_topics(*arguments)

    monkeypatch.setattr(
        "spark_jobs.inside.query.places.followed_topic_stream.stream_topics", stream_topics
    )
    running = build_query(spark, declare_query(context, live.name, prepared)).writer.start()
    running.processAllAvailable()
    running.stop()
    assert len(made) == grown
    report = audit(loaded)
    assert (report.expected > 0, wrong(report)) == (True, {})


def test_the_keys_for_another_driver_are_looked_up_while_history_is_read(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    query = declare_query(PipelineContext.require(loaded), "history")
    build_query(spark, query)
    with rehearsal(spark, query, Ahead(live_of(loaded), is_same_driver=False)):
        kept = generation.path("seam/live")
        wait_for(lambda: any(kept.glob("*/keys.json")), "the keys are kept", 60)
    monkeypatch.setattr("spark_jobs.inside.query.seam.duplicate_filters.write_rows", pytest.fail)
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1200, {})


def test_a_hand_over_that_is_refused_ends_the_driver_and_is_told_by_the_next_step(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(990, 1010))
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    sent: list[Heartbeat] = []

    def send_strange_records(beat: Heartbeat) -> None:
        if not sent:
            producer = Producer({"bootstrap.servers": servers})
            for _ in range(5):
                value = b'{"id": "none", "at": "2024-01-02T00:00:00Z", "v": 1.0}'
                producer.produce(case.topic, value, partition=0, timestamp=1704200000000)
            assert producer.flush(30) == 0
            sent.append(beat)

    end = bounded_run.run_bounded(
        PipelineContext.require(loaded),
        history_of(loaded),
        on_beat=send_strange_records,
        rest_requested=True,
    )
    assert end.rows == 1000
    generation = loaded.require_generation()
    launch = last_launch(generation)
    assert launch is not None
    assert (launch.source, launch.then) == ("history", ["live"])
    assert find_run(generation, "live") is None
    assert read_requested(generation) is None
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    with pytest.raises(SeamError, match="Check `schema` of source `live` fails"):
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
