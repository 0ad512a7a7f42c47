"""The seam, end to end: real files, a real broker, Spark, and a comparison without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.operations import bounded_run, chain_plan
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.hybrid import SwitchState
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.query.seam import duplicate_filters
from tests.e2e.case import TOPIC, Case, history_of, live_of, windows, wrong
from tests.e2e.in_session import run_and_audit, run_history

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize(
    "most", [pytest.param(1_000_000, id="broadcast"), pytest.param(100, id="sorted")]
)
def test_an_overlap_of_files_and_topic_arrives_once(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    # Keys that are too many for each memory are compared by sorting; nothing else changes.
    monkeypatch.setattr(duplicate_filters, "MOST_BROADCAST", most)
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    # Slightly out of order, as real feeds are.
    case.produce(sorted(TOPIC, key=lambda n: n + (n * 7919) % 40))
    loaded = case.pipeline()
    report = run_and_audit(spark, loaded)
    assert report.expected == 2000
    assert wrong(report) == {}
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), loaded.require_generation())
    # The start really lies before the end of history, so the filter had work to do.
    started = sum(enumerator.require_start("live").offsets().values())
    assert started < 1000 - 500


def test_windows_over_the_seam_equal_one_computation_over_all_input(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    report = run_and_audit(spark, case.pipeline(windows))
    assert report.expected > 30
    assert wrong(report) == {}


@pytest.mark.parametrize(
    ("shift", "seam_filter", "expected"),
    [
        pytest.param(0, "off", {}, id="exactly at the seam"),
        pytest.param(1, "off", {"missing": 1}, id="one too far"),
        pytest.param(-1, "off", {"duplicated": 1}, id="one too early, filter off"),
        pytest.param(-1, "key", {}, id="one too early, filter on"),
    ],
)
def test_the_audit_reports_exactly_the_row_that_a_moved_start_loses_or_doubles(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    shift: int,
    seam_filter: str,
    expected: dict[str, int],
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()

    def moved(document: dict[str, Any]) -> None:
        document["seam_filter"] = seam_filter
        # Event n lies at offset n - 500.
        document["sources"][1]["start"] = {"offsets": {0: 500 + shift}}

    report = run_and_audit(spark, case.pipeline(moved))
    assert wrong(report) == expected
    named = {kind: [row.key["id"] for row in report.examples[kind]] for kind in expected}
    assert named == {kind: [1000 if shift > 0 else 999] for kind in expected}


def test_old_rows_that_arrive_in_the_seam_are_looked_up_in_history(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    archived, never_archived = 3, 400
    case.write_history(n for n in range(1000) if n != never_archived)
    # Both come long after their time, behind the first record that is read.
    case.produce([*range(500, 1100), archived, never_archived, *range(1100, 1200)])
    report = run_and_audit(spark, case.pipeline())
    assert report.expected == 1200
    assert wrong(report) == {}


def test_json_lines_serve_as_history(tmp_path: Path, servers: str, spark: SparkSession) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history()
    case.produce()

    def as_json(document: dict[str, Any]) -> None:
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        document["sources"][0].update(format="json", path="in/*.json", schema=columns)

    report = run_and_audit(spark, case.pipeline(as_json))
    assert report.expected == 2000
    assert wrong(report) == {}


def test_three_sources_follow_each_other(tmp_path: Path, servers: str, spark: SparkSession) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(500, 1000), files=2, name=lambda at, _: f"new-{at}.parquet")
    case.write_history(range(600), files=2, name=lambda at, _: f"old-{at}.parquet")
    case.produce()

    def three(document: dict[str, Any]) -> None:
        recent, live = document["sources"]
        old = {**recent, "name": "old", "path": "in/old-*.parquet"}
        document["sources"] = [old, {**recent, "path": "in/new-*.parquet"}, live]
        # The two archives share events 500…599: here the transform keeps each once.
        document["transform"] = "transforms:once"

    with (tmp_path / "transforms.py").open("a") as module:
        module.write(
            "\ndef once(rows):\n"
            "    late = rows.withWatermark('at', '2 hours')\n"
            "    return late.dropDuplicatesWithinWatermark(['id'])\n"
        )
    loaded = case.pipeline(three)
    (warning,) = [text for text in make_plan(loaded).warnings if "rows that are in both" in text]
    assert "Source `history` begins at 2024-01-01T08:20:00Z" in warning
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (2000, {})


def test_files_alone_are_a_chain_that_ends(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    loaded = case.pipeline(lambda document: document["sources"].pop())
    run_history(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (1000, {}, True)


def test_a_start_that_the_topic_does_not_hold_is_refused(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()

    def beyond(document: dict[str, Any]) -> None:
        document["sources"][1]["start"] = {"offsets": {0: 5000}}

    with pytest.raises(SeamError, match="start offset 5000 is beyond the log end 1500"):
        chain_plan.plan(case.pipeline(beyond))
    assert not (tmp_path / "state").exists()


def test_history_that_is_done_is_not_read_again(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    end = bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))
    # A file that lands later is not in the plan; were it read, Spark would have to start.
    case.write_history(range(3000, 3010), files=1)
    assert bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded)) == end
    start = hand_over(PipelineContext.require(loaded), live_of(loaded))
    case.produce(range(2000, 2100))
    assert hand_over(PipelineContext.require(loaded), live_of(loaded)) == start
