"""Parquet files that Spark's own reader does not take, followed by a topic."""

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
from sources.errors import InputError
from sources.planning.plan import make_plan
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.e2e.case import Case, history_of, moment
from tests.e2e.in_session import run_and_audit, run_chain

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

FAR = datetime(2200, 1, 1, tzinfo=UTC)


def write(folder: Path, name: str, numbers: range, unit: str = "ns") -> None:
    """Event times of nanoseconds; one column has no value, one is named otherwise later."""
    times = [moment(n) for n in numbers]
    times[-1] = FAR
    old = "event_id" if name == "a" else "id"
    columns = {
        old: pa.array(numbers, pa.int32()),
        "at": pa.array(times, pa.timestamp(unit, "UTC")),
        "v": pa.nulls(len(numbers)) if name == "a" else pa.array([n / 2 for n in numbers]),
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_parsed_parquet_files_support_drift_rules_and_bounds_of_event_times(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    write(tmp_path / "in", "a", range(100))
    write(tmp_path / "in", "b", range(100, 200))
    case.produce(range(150, 300))

    def edit(document: dict[str, Any]) -> None:
        document["event_time"] = {
            "column": "at",
            "outside": "drop",
            "not_after": "2100-01-01T00:00:00Z",
        }
        drift = {"renamed": {"event_id": "id"}}
        schema = {"id": "bigint", "at": "timestamp", "v": "double"}
        document["sources"][0] |= {"schema_drift": drift, "schema": schema}
        document["rules"] = {"small": {"check": "id <> 7", "on_violation": "drop"}}

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    report = audit(loaded)
    assert report.ok, report
    found = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [
        {"id": n, "at": moment(n), "v": None if n < 100 else n / 2}
        for n in range(300)
        if n not in (7, 99)
    ]


def test_a_new_file_that_spark_can_not_read_is_refused_if_spark_reads_the_source(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(100))
    loaded = case.pipeline()
    (first,), generation = make_plan(loaded).files, loaded.require_generation()
    later = first.model_copy(update={"parsed": "in/late.parquet"})
    pipeline, source = loaded.pipeline, history_of(loaded)
    planned = PlannedSource(source, [first], generation, pipeline.event_time, pipeline.stores)
    with pytest.raises(InputError, match=r"in/late\.parquet, which arrived after the plan") as told:
        planned.extend(later)
    assert "hybrid generation new" in told.value.hint


def test_names_with_a_colon_which_hadoop_refuses_are_read(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(20), files=2, name=lambda at, _: f"events-2024-01-0{at}T10:00.parquet")
    case.produce(range(15, 30))
    report = run_and_audit(spark, case.pipeline())
    assert (report.ok, report.expected) == (True, 30)
