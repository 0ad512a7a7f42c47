"""Rows of Parquet files that tasks read by Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.errors import InputError
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.formats.parquet.rows import ArrivedRows, ParquetRows
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

STORES = Stores(S3Settings())
MARKS = [
    {"org.apache.spark.legacyDateTime": ""},
    {"org.apache.spark.legacyINT96": ""},
    {"org.apache.spark.version": "2.4.8"},
]


@pytest.mark.parametrize("form", [ParquetRows(), ArrivedRows("n", 0, 9)])
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (pa.date32(), date(1582, 10, 15)),
        (pa.timestamp("us", "UTC"), datetime(1900, 1, 1, tzinfo=UTC)),
    ],
)
def test_old_days_that_spark_marks_as_of_the_julian_calendar_are_refused(
    tmp_path: Path, kind: pa.DataType, first: Any, mark: dict[str, str], form: ParquetRows
) -> None:
    path = tmp_path / "a.parquet"
    columns = pa.schema([("n", pa.int64()), ("x", pa.struct([("y", kind)]))])

    def of(value: Any, marks: dict[str, str]) -> Any:
        table = pa.table({"n": [1], "x": [{"y": value}]}, schema=columns)
        with pq.ParquetWriter(path, table.schema) as out:
            out.write_table(table)
            out.add_key_value_metadata(marks)
        size = path.stat().st_size
        (batch,) = read_region(form, Region(str(path), 0, size, size), columns, STORES)
        return batch["x"][0].as_py()["y"]

    before = first - timedelta(days=1)
    assert of(first, mark) == first
    assert of(before, {"org.apache.spark.version": "4.2.0"}) == before
    with pytest.raises(InputError, match=r"a\.parquet: .*`x` has a value before .* Julian") as told:
        of(before, mark)
    assert "spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED" in told.value.hint
