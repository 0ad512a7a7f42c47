"""A topic that is created again, or whose log gets shorter, while a run reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from hybrid_extensions.servers.broker import create_topic
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.reports import broker_look
from spark_jobs.inside.query.places.topic_places import TopicRangePlace
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import Case, live_of
from tests.e2e.in_session import run_history, run_live
from tests.e2e.seam.test_bounded_topic import archive_first
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

READ = range(900, 1100)


def created_again(case: Case, numbers: range) -> None:
    """The topic is deleted and created again, with these records."""
    admin = AdminClient({"bootstrap.servers": case.servers})
    admin.delete_topics([case.topic])[case.topic].result()
    wait_for(lambda: case.topic not in admin.list_topics().topics, "the end of the topic", 30)
    create_topic(case.servers, case.topic, case.partitions, {"retention.ms": "-1"})
    case.produce(numbers)


def follow(
    case: Case,
    spark: SparkSession,
    meanwhile: Callable[[], None],
    interval: str,
    *,
    is_done: bool = True,
) -> None:
    """Read history and the topic; then something happens between two looks of Spark at the log.

    It ends once all is read; unless ``is_done``, only when the run fails.
    """
    case.write_history()
    case.produce(READ)
    loaded = case.pipeline(
        lambda declared: declared["sources"][1].update(trigger_interval=interval)
    )
    run_history(spark, loaded)
    generation = PipelineContext.require(loaded).generation
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def is_past_the_seam() -> bool:
        # Else the query is built again, which compares the topics.
        beat = read_heartbeat(generation, "live")
        return beat is not None and not beat.filtering and beat.pace_ms > 0

    def then() -> None:
        wait_for(is_past_the_seam, "the end of the seam", 480)
        meanwhile()

    run_live(spark, loaded, lambda _: is_done, then)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_that_is_created_again_and_grows_beyond_what_was_read_ends_the_run(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
) -> None:
    monkeypatch.setattr(broker_look, "_SELDOM_S", 1.0, raising=False)
    case = Case(tmp_path, servers, partitions)
    with pytest.raises(SeamError, match=f"`{case.topic}` is not the planned one"):
        follow(case, spark, lambda: created_again(case, range(2000, 3000)), "40 s")


def test_a_topic_that_is_created_again_while_its_range_is_read_is_no_end_of_it(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    case.produce(READ)

    loaded = case.pipeline(archive_first())
    stream = TopicRangePlace.stream

    def made_again(place: TopicRangePlace, session: SparkSession) -> object:
        found = stream(place, session)
        created_again(case, range(2000, 2000 + len(READ)))
        return found

    monkeypatch.setattr(TopicRangePlace, "stream", made_again)
    with pytest.raises(SeamError, match=f"`{case.topic}` is not the planned one"):
        run_history(spark, loaded)


def test_a_log_that_became_shorter_ends_the_run_for_good(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    ids = {case.topic: "the same"}
    monkeypatch.setattr(KafkaLog, "identities", lambda _: ids)

    def truncated() -> None:
        created_again(case, range(2000, 2010))

    with pytest.raises(SeamError, match=r"known up to offset 200, and its log ends at 10") as found:
        follow(case, spark, truncated, "200 ms", is_done=False)
    assert not found.value.transient


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_log_that_ends_before_a_planned_range_does_ends_the_run_for_good(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    is_decided: bool,
) -> None:
    """As of a broker that was restored from an older image of its disk: waiting does not help."""
    case = Case(tmp_path, servers)
    case.produce(READ)
    loaded = case.pipeline(archive_first())
    make_plan(loaded)
    if is_decided:
        archive = loaded.pipeline.sources[0]
        assert isinstance(archive, KafkaSource)
        hand_over(PipelineContext.require(loaded), archive)
    ids = KafkaLog(live_of(loaded)).identities()
    created_again(case, range(2000, 2010))
    monkeypatch.setattr(KafkaLog, "identities", lambda _: ids)
    with pytest.raises(SeamError, match=r"known up to offset 200, and its log ends at 10") as found:
        run_history(spark, loaded)
    assert not found.value.transient
