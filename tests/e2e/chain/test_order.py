"""Each loss that Spark's plain file stream shows, and rows behind the watermark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.errors import InputError
from sources.planning.plan import make_plan
from spark_jobs.checkpoint import offset_log
from spark_jobs.run_state.late_row_count import read_late_rows
from tests.e2e.case import Case, as_json, windows, wrong
from tests.e2e.in_session import run_and_audit, run_history

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def alone(document: dict[str, Any]) -> None:
    """History without a topic."""
    del document["sources"][1:]


def test_age_and_arrival_of_files_change_nothing(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(400), files=4)
    day = 86_400
    now = (tmp_path / "in" / "0.parquet").stat().st_mtime
    # Spark's file stream leaves out what is a week older than the newest file, and all files
    # behind one that is dated in the future.
    for name, moment in (("1", now - 30 * day), ("2", now + 365 * day)):
        os.utime(tmp_path / "in" / f"{name}.parquet", (moment, moment))
    loaded = case.pipeline(alone)
    make_plan(loaded)
    case.write_history(range(400, 500), files=1, name=lambda at, part: "late.parquet")
    run_history(spark, loaded)
    found = DeltaTable(str(tmp_path / "out")).to_pyarrow_table(columns=["id"])
    # The late file is not in the plan: it is the topic's to deliver, or the next run's.
    assert sorted(found["id"].to_pylist()) == list(range(400))


@pytest.mark.parametrize("change", ["deleted", "rewritten"])
def test_a_file_that_is_gone_or_rewritten_after_the_plan_is_loud(
    tmp_path: Path, servers: str, spark: SparkSession, change: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(400), files=4)
    loaded = case.pipeline(alone)
    make_plan(loaded)
    file = tmp_path / "in" / "2.parquet"
    if change == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(InputError, match=f"{file} (is missing|was rewritten)"):
        run_history(spark, loaded)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_plan_is_read_in_order_however_many_versions_its_log_has(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    of_version, entries = (3, [3, 3, 2]) if form == "parquet" else (1, [1, 1])
    monkeypatch.setattr("spark_jobs.inside.readers.files.plan_log.ENTRIES_OF_VERSION", of_version)
    case = Case(tmp_path, servers)
    if form == "parquet":
        # The latest events are in the file whose name comes first.
        case.write_history(range(1000), files=8, name=lambda at, _: f"{9 - at}.parquet")
    else:
        (tmp_path / "in").mkdir()
        for at in range(2):
            lines = [as_json(n) for n in range(500 * at, 500 * (at + 1))]
            (tmp_path / "in" / f"{9 - at}.json").write_text("\n".join(lines))
    case.produce(range(950, 1200))

    def some_by_some(document: dict[str, Any]) -> None:
        windows(document)
        history = document["sources"][0]
        if form == "json":
            columns = {"id": "bigint", "at": "timestamp", "v": "double"}
            history |= {"path": "in/*.json", "format": "json", "schema": columns}
        history["batch"] = {"files": 2 if form == "parquet" else 1}

    loaded = case.pipeline(some_by_some)
    report = run_and_audit(spark, loaded)
    assert (report.expected > 0, wrong(report)) == (True, {})
    generation = loaded.require_generation()
    log = list(generation.path("plan-log/history/_delta_log").glob("*.json"))
    assert len(log) == len(entries)
    ends = [offset_log.offset_of(generation.checkpoint, at, 0) for at in range(len(entries))]
    reached = [offset_log.position_in_plan(end, entries) for end in ends]
    assert reached == ([2, 4, 6] if form == "parquet" else [1, 2])


def overlapping(case: Case) -> None:
    """Three files over the same hours, each holding every third event."""
    # Two would not do: Spark drops by the watermark of the batch before.
    for at in range(3):
        numbers = range(at, 1000, 3)
        case.write_history(numbers, files=1, name=lambda *_, at=at: f"{at}.parquet")


def one_by_one(document: dict[str, Any]) -> None:
    """Windows over history alone, a file in each micro-batch."""
    alone(document)
    windows(document)
    document["sources"][0]["batch"] = {"files": 1}


def test_files_that_would_lose_rows_behind_the_watermark_are_refused(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    overlapping(case)

    with pytest.raises(InputError, match="reach back in event time by") as caught:
        run_history(spark, case.pipeline(one_by_one))
    assert "the transform's watermark allows for 1 h" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_files_that_are_read_together_lose_nothing_however_they_overlap(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    overlapping(case)
    case.produce(range(950, 1200))

    def together(document: dict[str, Any]) -> None:
        windows(document)
        document["sources"][0]["batch"] = {"files": 3}

    report = run_and_audit(spark, case.pipeline(together))
    assert wrong(report) == {}


def test_rows_are_really_dropped_where_the_order_is_not_checked(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.inside.query.builder.judge_order", lambda *_, **__: None)
    case = Case(tmp_path, servers)
    overlapping(case)

    def unlimited(document: dict[str, Any]) -> None:
        one_by_one(document)
        document["supervision"] = {"late_rows": {"history": None}}

    loaded = case.pipeline(unlimited)
    run_history(spark, loaded)
    assert wrong(audit(loaded))
    # Aggregates in `foreachBatch` report them, too.
    count = read_late_rows(loaded.require_generation(), "history")
    assert count is not None
    assert count.dropped > 0
    assert count.first is not None
    assert count.first.operators == ["stateStoreSave"]
