"""Parquet files that can be files of a Delta table as they are, and those that can't."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.copied_files.why_rewritten import why_rewritten
from sources.common.schema import TIMESTAMP, normalize

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
ID = pa.schema([("id", pa.int64())])


def footer(folder: Path, columns: dict[str, pa.Array], **options: Any) -> pq.FileMetaData:
    """The footer of a file with these columns."""
    pq.write_table(pa.table(columns), folder / "a.parquet", **options)
    return pq.read_metadata(folder / "a.parquet")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, pa.bool_()),
        (1, pa.int8()),
        (1, pa.int16()),
        (1, pa.int32()),
        (1, pa.int64()),
        (1.5, pa.float32()),
        (1.5, pa.float64()),
        ("x", pa.string()),
        ("x", pa.large_string()),
        (b"x", pa.binary()),
        (date(2024, 1, 1), pa.date32()),
        (NOON, TIMESTAMP),
        (Decimal("1.25"), pa.decimal128(10, 2)),
    ],
)
def test_a_file_with_the_table_s_own_types_needs_no_change(
    tmp_path: Path, value: Any, kind: pa.DataType
) -> None:
    found = footer(tmp_path, {"x": pa.array([value, None], kind)})
    assert why_rewritten(found, pa.schema([("x", normalize(kind))])) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, pa.uint8()),
        (1, pa.uint32()),
        (NOON, pa.timestamp("ms", "UTC")),
        (NOON, pa.timestamp("ns", "UTC")),
        (NOON.replace(tzinfo=None), pa.timestamp("us")),
    ],
)
def test_a_type_that_spark_reads_as_another_one_has_to_be_written_again(
    tmp_path: Path, value: Any, kind: pa.DataType
) -> None:
    found = footer(tmp_path, {"x": pa.array([value], kind)})
    said = why_rewritten(found, pa.schema([("x", normalize(kind))]))
    assert said is not None
    assert said.startswith("column `x` is stored otherwise than Delta's ")


def test_int96_and_a_wider_type_are_written_again(tmp_path: Path) -> None:
    found = footer(
        tmp_path, {"x": pa.array([NOON], TIMESTAMP)}, use_deprecated_int96_timestamps=True
    )
    assert "Delta's timestamp" in str(why_rewritten(found, pa.schema([("x", TIMESTAMP)])))
    found = footer(tmp_path, {"id": pa.array([1], pa.int32())})
    assert "Delta's bigint" in str(why_rewritten(found, ID))


def test_columns_have_to_be_the_table_s_in_any_order(tmp_path: Path) -> None:
    both = pa.schema([("id", pa.int64()), ("v", pa.float64())])
    found = footer(tmp_path, {"v": pa.array([0.5]), "id": pa.array([1])})
    assert why_rewritten(found, both) is None
    assert why_rewritten(found, ID) == "column `v` is not in the table"
    assert why_rewritten(footer(tmp_path, {"id": pa.array([1])}), both) == "column `v` is not in it"
    of_other_case = footer(tmp_path, {"ID": pa.array([1])})
    assert why_rewritten(of_other_case, ID) == "column `id` is not in it"
    nested = pa.schema([("id", pa.list_(pa.int64()))])
    found = footer(tmp_path, {"id": pa.array([[1]])})
    assert why_rewritten(found, nested) == "column `id` is nested"


def test_what_readers_may_not_decode_is_written_again(tmp_path: Path) -> None:
    ids = {"id": pa.array(range(100))}
    assert why_rewritten(footer(tmp_path, ids, compression="zstd"), ID) is None
    assert why_rewritten(footer(tmp_path, ids, compression="lz4"), ID) == "it is compressed by LZ4"
    split = {"use_dictionary": False, "column_encoding": {"id": "BYTE_STREAM_SPLIT"}}
    found = footer(tmp_path, ids, **split)
    assert why_rewritten(found, ID) == "it is encoded by BYTE_STREAM_SPLIT"


@pytest.mark.parametrize(
    "mark", [{"org.apache.spark.legacyDateTime": ""}, {"org.apache.spark.version": "2.4.8"}]
)
def test_dates_of_the_julian_calendar_are_written_again(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    for marks, is_julian in ((mark, True), ({"org.apache.spark.version": "3.5.1"}, False)):
        table = pa.table({"id": [1]}).replace_schema_metadata(marks)
        pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
        with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as out:
            out.write_table(table)
            out.add_key_value_metadata(marks)
        said = why_rewritten(pq.read_metadata(tmp_path / "a.parquet"), ID)
        assert (said is not None) is is_julian
