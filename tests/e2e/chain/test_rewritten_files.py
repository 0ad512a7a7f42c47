"""Planned files that are written over while a run reads others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.e2e.in_session import fails_with, run_history
from tests.minimal import minimal_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def write(file: Path, number: int) -> None:
    at = datetime(2024, 1, 1, number % 24, tzinfo=UTC)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{"id": number, "at": at}]), file)
    else:
        file.write_text(json.dumps({"id": number, "at": at.isoformat()}) + "\n")


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_file_that_is_written_over_before_its_turn_ends_the_run(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    for number in (1, 2):
        write(tmp_path / f"{number}.{form}", number)
    (tmp_path / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    source = {"name": "old", "type": "files", "format": form, "path": f"*.{form}"}
    columns = {} if form == "parquet" else {"schema": {"id": "bigint", "at": "timestamp"}}
    loaded = minimal_pipeline(tmp_path, {**source, **columns, "batch": {"files": 1}})
    looked = PlannedSource.require_unchanged

    def look(planned: PlannedSource, *entries: int) -> None:
        looked(planned, *entries)
        write(tmp_path / f"2.{form}", 26)

    monkeypatch.setattr(PlannedSource, "require_unchanged", look)
    with fails_with(f"2.{form} was rewritten"):
        run_history(spark, loaded)
    assert DeltaTable(loaded.target.url).to_pyarrow_table()["id"].to_pylist() == [1]
