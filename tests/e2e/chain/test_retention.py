"""Records that Kafka deletes: a hole is refused, closed or accepted, never passed over."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.defs.assets.chain_assets import pipeline_assets
from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.declared_start import GapError
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import Case, live_of, moment, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
HOUR_MS = 3_600_000


def test_a_hole_that_retention_made_is_refused_with_partition_time_and_length(
    tmp_path: Path, servers: str
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(800))
    expire(case, 1000)
    # Segments of 50 events: the first one with a record at or after event 1000 stays.
    with pytest.raises(GapError) as caught:
        make_plan(case.pipeline())
    assert str(caught.value) == (
        f"Topic `{case.topic}`, partition 0: the log starts at offset 500, 2024-01-01T16:40:00Z; "
        "history is complete through 2024-01-01T11:39:00Z; the 5 h 1 min between are in neither. "
        "No start was decided, as rows could be missing from the table. Let the files of history "
        "cover these records (`on_gap: extend` reads files that arrived in the meantime), or "
        "declare `on_gap: accept` for source `live` to continue without these records."
    )
    assert not (tmp_path / "state").exists()


def test_a_hole_made_while_history_ran_turns_the_check_red_and_holds_up_the_launch(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(800))
    loaded = case.pipeline()
    run_history(spark, loaded)
    expire(case, 1000)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(pipeline_assets(loaded), instance=instance, raise_on_error=False)
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.blocking) == ("no_gap", False, True)
    assert "the log starts at offset 500" in (check.description or "")
    assert [event.step_key for event in result.get_step_failure_events()] == [
        "events__live_handover"
    ]
    assert read_heartbeat(loaded.require_generation(), "live") is None


def test_an_accepted_hole_is_in_the_ledger(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(800))
    expire(case, 1000)
    loaded = case.pipeline(live(on_gap="accept"))
    ledger = run_chain(spark, loaded)
    assert "the 5 h 1 min between are in neither" in (ledger.entries[0].gap or "")
    report = audit(loaded)
    # What is gone can't be expected any more: 800 of history, 500 of the topic.
    assert (report.expected, wrong(report)) == (1300, {})


def test_a_hole_is_closed_by_files_that_arrive_while_history_runs(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(800))
    loaded = case.pipeline(live(on_gap="extend"))
    expire(case, 1000)
    (warning,) = [text for text in make_plan(loaded).warnings if "Gap" in text]
    assert "the log starts at offset 500" in warning
    case.write_history(range(800, 1300), files=1, name=lambda *_: "later.parquet")
    ledger = run_chain(spark, loaded)
    assert ledger.entries[0].start == 1199 - 500
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1500, {})


def test_history_stops_before_the_records_after_it_are_deleted_and_goes_on_later(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(800), files=24)

    def one_by_one(document: dict[str, Any]) -> None:
        document["sources"][0]["batch"] = {"files": 1}

    loaded = case.pipeline(one_by_one)
    # Complete through event 699; the log has to reach back 100 minutes more, to before event 599.
    retain(case, now_ms() - event_ms(598) + HOUR_MS)
    topic = make_plan(loaded).topic
    assert topic is not None
    assert 0 < topic.headroom[0].left_ms <= HOUR_MS

    def cut_when_it_runs() -> None:
        wait_for(lambda: (done_splits(loaded) or 0) > 0, "the first batch", 90)
        retain(case, now_ms() - event_ms(598) + 60_000)

    with ThreadPoolExecutor() as pool:
        cut = pool.submit(cut_when_it_runs)
        with pytest.raises(SeamError) as caught:
            run_history(spark, loaded)
        cut.result()
    assert "Stopped before records are lost, history: batch" in str(caught.value)
    assert f"topic `{case.topic}`, partition 0: Kafka may delete offset 98" in str(caught.value)
    assert 0 < (done_splits(loaded) or 0) < 24
    retain(case, -1)
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1500, {})


def done_splits(loaded: LoadedPipeline) -> int | None:
    beat = read_heartbeat(loaded.require_generation(), "history")
    return None if beat is None else beat.splits_done


def test_rounds_follow_files_that_keep_arriving_until_the_gap_is_small(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = with_segments(tmp_path, servers)
    case.write_history(range(600))
    loaded = case.pipeline(
        lambda document: document["sources"][0].update(converge={"gap": "3 hours"})
    )
    make_plan(loaded)
    # One round finds two files, the topic is then 100 minutes ahead.
    case.write_history(range(600, 1400), files=2, name=lambda at, _: f"later-{at}.parquet")
    run_history(spark, loaded)
    beat = read_heartbeat(loaded.require_generation(), "history")
    assert beat is not None
    assert (beat.splits_done, beat.splits_total, beat.rows_total) == (6, 6, 1400)
    case.write_history(range(1400, 1450), files=1, name=lambda *_: "too-late.parquet")
    ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert ledger.entries[0].start == 1299 - 500
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1500, {})


def with_segments(folder: Path, servers: str) -> Case:
    """A topic of events 500…1499 in segments of 50, each an hour long or less."""
    case = Case(folder, servers, config={"segment.ms": str(HOUR_MS * 50 // 60 - 60_000)})
    for first in range(500, 1500, 50):
        case.produce(range(first, first + 50))
    return case


def expire(case: Case, event: int) -> None:
    """Let retention delete every segment that ends before an event, and wait for it."""
    retain(case, now_ms() - event_ms(event) + 60_000)
    log = KafkaLog(live_of(case.pipeline()))
    at = TopicPartition(case.topic, 0)
    wait_for(lambda: log.log_start()[at] == event - 500, "retention", 60)


def retain(case: Case, retention_ms: int) -> None:
    admin = AdminClient({"bootstrap.servers": case.servers})
    how = AlterConfigOpType.SET
    entry = ConfigEntry("retention.ms", str(retention_ms), incremental_operation=how)
    topic = ConfigResource(ResourceType.TOPIC, case.topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result()


def live(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["sources"][1].update(fields)


def event_ms(number: int) -> int:
    return int(moment(number).timestamp() * 1000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
