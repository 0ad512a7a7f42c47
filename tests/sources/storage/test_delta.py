"""Rows of a Delta table whose files hold times in both ways that Spark has written them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sources.storage.tables.delta import dataset_of, query_rows
from tests.sources.storage.int96_files import EARLY, FAR, store_as_int96

ROWS = pa.table(
    {
        "id": [1, 2],
        "at": pa.array([FAR, EARLY], pa.timestamp("us", "UTC")),
        "each": pa.array([[FAR, None], [EARLY]], pa.list_(pa.timestamp("us", "UTC"))),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A table with a file of INT96 and one of microseconds."""
    write_deltalake(tmp_path, ROWS)
    store_as_int96(tmp_path)
    write_deltalake(tmp_path, ROWS, mode="append")
    files = [pq.ParquetFile(file) for file in tmp_path.glob("*.parquet")]
    kinds = {file.schema.column(1).physical_type for file in files}
    assert kinds == {"INT96", "INT64"}
    return DeltaTable(tmp_path)


def test_a_query_returns_each_time_as_it_is(table: DeltaTable) -> None:
    found = query_rows(table, "SELECT id, at, each FROM target ORDER BY id").read_all()
    assert found.to_pylist() == sorted(ROWS.to_pylist() * 2, key=lambda row: row["id"])


def test_a_dataset_has_each_time_as_it_is(table: DeltaTable) -> None:
    found = dataset_of(table).to_table().sort_by("id")
    assert found.to_pylist() == sorted(ROWS.to_pylist() * 2, key=lambda row: row["id"])
