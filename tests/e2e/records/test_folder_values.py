"""Values of partition columns in names of folders, whoever reads the files."""

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

from tests.e2e.in_session import run_history
from tests.minimal import minimal_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
VALUES: dict[str, list[tuple[str, Any]]] = {
    "int": [("007", 7), ("0x10", 16), ("__HIVE_DEFAULT_PARTITION__", None)],
    "timestamp": [
        (each, datetime(2024, 1, 1, 5, tzinfo=UTC))
        for each in ("2024-01-01T05Z", "2024-01-01 05", "2024-01-01 05%3A00%3A00")
    ],
    "string": [("0x10", "0x10"), ("a%2Fb", "a/b"), ("%C3%A4+b", "ä+b")],
}


def write(file: Path, number: int) -> None:
    at = datetime(2024, 1, 1, 0, 0, number, tzinfo=UTC)
    file.parent.mkdir(parents=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{"id": number, "at": at}]), file)
    else:
        file.write_text(json.dumps({"id": number, "at": at.isoformat()}) + "\n")


@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_means_the_same_in_each_format(
    tmp_path: Path, spark: SparkSession, kind: str, form: str
) -> None:
    for number, (text, _) in enumerate(VALUES[kind]):
        write(tmp_path / "in" / f"x={text}" / f"a.{form}", number)
    (tmp_path / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    columns = {} if form == "parquet" else {"schema": {"id": "bigint", "at": "timestamp"}}
    source = {"name": "old", "type": "files", "format": form, "path": f"in/**/*.{form}"}
    loaded = minimal_pipeline(tmp_path, {**source, **columns, "partitions": {"x": kind}})
    run_history(spark, loaded)
    found = DeltaTable(loaded.target.url).to_pyarrow_table().sort_by("id")
    assert found["x"].to_pylist() == [value for _, value in VALUES[kind]]
