"""Times that nanoseconds can't hold, from files to the target, the audit and feeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


@pytest.mark.parametrize("limit", [datetime(1500, 1, 1, tzinfo=UTC), datetime(1, 1, 9, tzinfo=UTC)])
def test_a_range_of_the_far_past_begins_and_ends_at_its_times(
    tmp_path: Path, spark: SparkSession, limit: datetime
) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    after = limit + timedelta(days=9)
    tick = timedelta(microseconds=1)
    times = [limit - tick, limit, limit + timedelta(days=1), after - tick, after]
    rows = {"id": [*range(5)], "at": pa.array(times, pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    source = {"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"}
    loaded = minimal_pipeline(
        tmp_path,
        {**source, "time_range": {"since": limit.isoformat(), "until": after.isoformat()}},
        event_time={"column": "at", "not_before": "0001-01-01T00:00:00Z"},
        spark={"conf": dict(SMALL)},
    )
    run_history(spark, loaded)
    written = DeltaTable(str(tmp_path / "out")).to_pyarrow_table()
    assert sorted(written["id"].to_pylist()) == [1, 2, 3]
    assert audit(loaded).ok


def test_a_default_of_the_far_past_is_the_declared_one(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    micros = pa.timestamp("us", "UTC")
    lacking = pa.table({"id": [1], "at": pa.array([moment(1)], micros)})
    full = pa.table({"id": [2], "at": pa.array([moment(2)], micros)})
    for name, kind, value in (("since", micros, FAR), ("day", pa.date32(), FAR.date())):
        full = full.append_column(name, pa.array([value], kind))
    pq.write_table(lacking, tmp_path / "a.parquet")
    pq.write_table(full, tmp_path / "b.parquet")
    source = {"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"}
    defaults = {"since": EARLY, "day": EARLY.date()}
    loaded = minimal_pipeline(
        tmp_path,
        {**source, "schema_drift": {"defaults": defaults}},
        spark={"conf": dict(SMALL)},
    )
    run_history(spark, loaded)
    written = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().sort_by("id")
    assert written["since"].to_pylist() == [EARLY, FAR]
    assert written["day"].to_pylist() == [EARLY.date(), FAR.date()]
    assert audit(loaded).ok
