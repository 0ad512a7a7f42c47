"""Parquet files whose columns differ, as runs and audit read them, without a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.e2e.records.table_reading import read_table

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FILES = {"format": "parquet", "path": "../in/*.parquet"}


def write(folder: Path, name: str, key: int, **columns: pa.Array) -> None:
    (folder / "in").mkdir(exist_ok=True)
    at = pa.array([NOON], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": [key], "at": at, **columns}), folder / "in" / f"{name}.parquet")


def test_names_that_differ_in_case_are_those_of_one_column_if_they_are_declared_so(
    tmp_path: Path, spark: SparkSession
) -> None:
    write(tmp_path, "a", 1, X=pa.array([1]))
    write(tmp_path, "b", 2, x=pa.array([2]))
    write(tmp_path, "c", 3, Y=pa.array([3]))
    drift = {"renamed": {"X": "x", "Y": "x", "y": "x"}, "defaults": {"x": 9}}
    read = read_table(spark, tmp_path / "p", **FILES, schema_drift=drift)
    assert [row["x"] for row in read.run] == [1, 2, 3]
    assert read.audit == read.run


def test_a_column_without_any_value_in_a_file_has_the_type_of_other_files(
    tmp_path: Path, spark: SparkSession
) -> None:
    nothing = {name: pa.nulls(1, pa.float64()) for name in ("text", "day", "n")}
    write(tmp_path, "a", 1, **nothing)
    full = {"text": pa.array(["t"]), "day": pa.array([NOON.date()]), "n": pa.array([7])}
    write(tmp_path, "b", 2, **full)
    write(tmp_path, "c", 3, text=pa.nulls(1, pa.int32()), n=pa.array([1], pa.int32()))
    read = read_table(spark, tmp_path / "p", **FILES, schema_drift={})
    assert [(row["text"], row["day"], row["n"]) for row in read.run] == [
        (None, None, None),
        ("t", NOON.date(), 7),
        (None, None, 1),
    ]
    assert read.audit == read.run
