"""Parquet files whose columns differ, read as one and followed by a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.progress.plan_preview import preview
from orchestration.progress.plan_tables import plan_tables
from sources.planning.plan import require_plan
from tests.e2e.case import Case, moment, wrong
from tests.e2e.in_session import run_chain

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

DRIFT = {"renamed": {"event_id": "id", "time": "at"}, "defaults": {"v": 7.25}}
FUTURE = datetime(2099, 1, 1, tzinfo=UTC)


def columns(numbers: range, *names: str, at: str = "at") -> dict[str, pa.Array]:
    kinds = {"event_id": pa.int32(), "id": pa.int64(), "v": pa.float64(), "f": pa.float32()}
    found: dict[str, pa.Array] = {}
    for name in names:
        values = (
            [None if n % 7 == 0 and n < 350 else n / 2 for n in numbers]
            if name in "fv"
            else numbers
        )
        found["v" if name == "f" else name] = pa.array(values, kinds[name])
    found[at] = pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC"))
    return found


def test_files_of_four_layouts_and_the_topic_become_one_table(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "in").mkdir()
    oldest = columns(range(100), "event_id", "f", at="time")
    times = oldest["time"].to_pylist()
    oldest["time"] = pa.array([*times[:-1], FUTURE], pa.timestamp("us", "UTC"))
    files = {
        "a": oldest,
        "b": columns(range(100, 200), "id"),
        "c": columns(range(200, 300), "v", "id"),
        "d": columns(range(300, 400), "event_id", "v"),
    }
    for name, of in files.items():
        pq.write_table(pa.table(of), tmp_path / "in" / f"{name}.parquet")
    case.produce(range(350, 500))

    def drifted(document: dict[str, Any]) -> None:
        document["event_time"] = {"column": "at", "outside": "quarantine"}
        document["sources"][0]["schema_drift"] = DRIFT

    loaded = case.pipeline(drifted)
    run_chain(spark, loaded)
    plan = require_plan(loaded.require_generation())
    tables = {table.title: table.rows for table in plan_tables(plan, preview(loaded, plan))}
    assert [row["difference"] for row in tables["files whose columns differ"]] == [
        "id: is int, is named event_id\nv: is float\nat: is named time",
        "v: missing, read as 7.25",
        "id: is int, is named event_id",
    ]
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id", "v"])
    held = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    # A null that a file holds stays null; a column that it lacks has the default.
    expected = {n: None if n % 7 == 0 else n / 2 for n in range(350)}
    expected |= dict.fromkeys(range(100, 200), 7.25) | {n: n / 2 for n in range(350, 500)}
    del expected[99]
    assert held == expected
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (499, {})
