"""Times that nanoseconds can't hold, from files to the target, the audit and feeds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from tests.e2e.case import SMALL, TRANSFORMS, moment
from tests.e2e.in_session import run_history
from tests.minimal import minimal_pipeline
from tests.sources.storage.int96_files import EARLY, FAR

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.mark.parametrize("is_int96", [False, True])
def test_far_times_are_in_the_target_as_every_reader_reads_them(
    tmp_path: Path, spark: SparkSession, *, is_int96: bool
) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    micros = pa.timestamp("us", "UTC")
    until, at = pa.array([FAR, EARLY], micros), pa.array([moment(1), moment(2)], micros)
    table = pa.table({"id": [1, 2], "at": at, "valid_to": until})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=is_int96)
    loaded = minimal_pipeline(
        tmp_path,
        {"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"},
        name="events",
        spark={"conf": dict(SMALL)},
    )
    run_history(spark, loaded)
    written = DeltaTable(str(tmp_path / "out"))
    stored = [pq.ParquetFile(file).schema for file in (tmp_path / "out").glob("*.parquet")]
    assert {file.column(2).physical_type for file in stored} == {"INT64"}
    assert written.to_pyarrow_table().sort_by("id")["valid_to"].to_pylist() == [FAR, EARLY]
    assert audit(loaded).ok
    all_rows = pytest.importorskip("hybrid_extensions.feeds.rows").all_rows
    with all_rows(written, ["id"], table.schema) as found:
        assert [row["valid_to"] for row in found.read("arrow").read_all().to_pylist()] == [
            *(FAR, EARLY)
        ]
