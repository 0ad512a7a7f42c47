"""Rows that break a rule, in history and live: refused, or left out, counted and proved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.run_state.heartbeat import describe
from tests.e2e.case import HISTORY, Case, live_of
from tests.e2e.in_session import fails_with, run_chain, run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
RULES: dict[str, Any] = {
    "no_seven": {"check": "id % 100 <> 7 -- not these", "on_violation": "drop"},
    "small": {"check": "v < 900 AND (v < 100 OR v >= 110)", "on_violation": "quarantine"},
    "known": "id >= 0",
}
# The live run starts where history is complete.
READ = range(899, 2000)


def breaks(number: int) -> str | None:
    if number % 100 == 7:
        return "no_seven"
    return "small" if number >= 1800 or 200 <= number < 220 else None


def broken(numbers: range, rule: str) -> list[int]:
    return [n for n in numbers if breaks(n) == rule]


def quarantined(loaded: LoadedPipeline, source: str) -> list[dict[str, Any]]:
    path = loaded.require_generation().path(f"quarantine/{source}")
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return rows


def with_history(folder: Path, servers: str, form: str) -> Case:
    case = Case(folder, servers)
    if form == "json":
        case.write_json_history()
    else:
        case.write_history()
    return case


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_rules_leave_out_the_same_rows_of_files_and_topic_and_the_audit_proves_it(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case = with_history(tmp_path, servers, form)
    case.produce()

    def edit(document: dict[str, Any]) -> None:
        document["rules"] = RULES
        if form == "json":
            schema = {"id": "bigint", "at": "timestamp", "v": "double"}
            document["sources"][0] |= {"format": "json", "path": "in/*.json", "schema": schema}

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    beat = run_live(spark, loaded, lambda beat: sum(beat.broken_rules.values()) == 209)
    ids = DeltaTable(loaded.locate("out")).to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == [n for n in range(2000) if breaks(n) is None]
    assert beat.broken_rules == {rule: len(broken(READ, rule)) for rule in ("no_seven", "small")}
    assert "11 records that break `no_seven`" in describe(beat)
    counted = loaded.require_generation().read(bad_count_name("history"), BadRecordCount)
    assert counted is not None
    assert counted.broken == {r: len(broken(HISTORY, r)) for r in ("no_seven", "small")}
    in_topic = quarantined(loaded, "live")
    assert sorted(row["offset"] + 500 for row in in_topic) == broken(READ, "small")
    assert {row["kind"] for row in in_topic} == {"rule.small"}
    assert all(b'"id": 18' in row["value"] or b'"id": 19' in row["value"] for row in in_topic)
    in_files = quarantined(loaded, "history")
    assert len({(row["place"], row["offset"]) for row in in_files}) == len(in_files) == 19
    assert sorted(json.loads(row["value"])["id"] for row in in_files) == broken(HISTORY, "small")
    report = audit(loaded)
    assert report.outcome == "passed", report
    lines = {(line.source, line.kind): (line.found, line.counted) for line in report.bad_records}
    assert lines == {
        ("history", "rule.no_seven"): (10, 10),
        ("history", "rule.small"): (19, 19),
        ("live", "rule.no_seven"): (11, 11),
        ("live", "rule.small"): (198, 198),
    }
    generation = loaded.require_generation()
    generation.replace(bad_count_name("history"), counted.model_copy(update={"broken": {}}))
    assert audit(loaded).outcome == "failed"


@pytest.mark.parametrize("form", ["parquet", "json", "topic"])
def test_a_rule_that_fails_names_the_row_and_lets_none_of_its_batch_pass(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case = with_history(tmp_path, servers, form)
    case.produce(range(500, 1200))

    def edit(document: dict[str, Any]) -> None:
        most = 1100 if form == "topic" else 760
        document["rules"] = {"known": {"check": f"id < {most}"}}
        if form == "json":
            schema = {"id": "bigint", "at": "timestamp", "v": "double"}
            document["sources"][0] |= {"format": "json", "path": "in/*.json", "schema": schema}

    loaded = case.pipeline(edit)
    if form == "topic":
        with fails_with(f"Topic `{case.topic}`, partition 0, offset 600: the row breaks rule "):
            run_chain(spark, loaded)
    else:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
            run_history(spark, loaded)
        report = report_of(caught.value)
        assert str(report.fields["file"]).endswith(("0.json", "1.json", "3.parquet"))
        assert ", row {" in report.message
        assert report.message.endswith("the row breaks rule `rules.known: id < 760`.")
