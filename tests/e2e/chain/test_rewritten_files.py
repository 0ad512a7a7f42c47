"""Planned files that are written over while a run reads others, or just them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.e2e.in_session import fails_with, run_history
from tests.minimal import minimal_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

TRANSFORMS = """
def identity(rows):
    return rows

def distinct(rows):
    return rows.dropDuplicates(["id"])
"""


def write(file: Path, number: int) -> None:
    at = datetime(2024, 1, 1, number % 24, tzinfo=UTC)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{"id": number, "at": at}]), file)
    else:
        file.write_text(json.dumps({"id": number, "at": at.isoformat()}) + "\n")


def pipeline(folder: Path, form: str, transform: str) -> LoadedPipeline:
    """Files 1 and 2, a micro-batch each."""
    for number in (1, 2):
        write(folder / f"{number}.{form}", number)
    (folder / "transforms.py").write_text(TRANSFORMS)
    source = {"name": "old", "type": "files", "format": form, "path": f"*.{form}"}
    columns = {} if form == "parquet" else {"schema": {"id": "bigint", "at": "timestamp"}}
    declared = {**source, **columns, "batch": {"files": 1}}
    return minimal_pipeline(folder, declared, transform=f"transforms:{transform}")


def written_over(monkeypatch: pytest.MonkeyPatch, file: Path, batch: int | None = None) -> None:
    """Write a file over after each look at files; or only after that of a micro-batch."""
    looked = PlannedSource.require_unchanged

    def look(planned: PlannedSource, *entries: Any, **more: Any) -> None:
        looked(planned, *entries, **more)
        if batch is None or entries[1:2] == (batch + 1,):
            write(file, 26)

    monkeypatch.setattr(PlannedSource, "require_unchanged", look)


@pytest.mark.parametrize(
    ("form", "transform"),
    [("parquet", "identity"), ("json", "identity"), ("parquet", "distinct")],
)
def test_a_file_that_is_written_over_before_its_turn_ends_the_run(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    transform: str,
) -> None:
    loaded = pipeline(tmp_path, form, transform)
    written_over(monkeypatch, tmp_path / f"2.{form}")
    with fails_with(f"2.{form} was rewritten"):
        run_history(spark, loaded)
    assert DeltaTable(loaded.target.url).to_pyarrow_table()["id"].to_pylist() == [1]


@pytest.mark.parametrize("transform", ["identity", "distinct"])
def test_a_file_that_is_written_over_as_it_is_read_ends_the_run_for_good(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, transform: str
) -> None:
    loaded = pipeline(tmp_path, "parquet", transform)
    written_over(monkeypatch, tmp_path / "2.parquet", batch=1)
    # Its rows may be in the table.
    with fails_with("The micro-batch was written and is given up: the table would lack"):
        run_history(spark, loaded)
    with fails_with("2.parquet was rewritten"):
        run_history(spark, loaded)
