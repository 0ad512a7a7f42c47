"""Rows of several Parquet files in one, with types and values as they were."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hybrid_extensions.upkeep.files.merged_files import MergedFile, ParquetPart

AT = datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


def encoded(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, store_schema=False, **options) as writer:
        writer.add_key_value_metadata(table.schema.metadata or {})
        writer.write_table(table)
    return out.getvalue()


def merged(*files: bytes) -> pq.ParquetFile:
    parts = [ParquetPart(each) for each in files]
    made = MergedFile(parts[0])
    for part in parts:
        made.add(part)
    return pq.ParquetFile(io.BytesIO(made.close()))


def test_points_in_time_that_spark_writes_as_int96_stay_points_in_time() -> None:
    inner = pa.struct([("at", INSTANT), ("n", pa.int32())])
    table = pa.table(
        {
            "at": pa.array([AT, None], INSTANT),
            "parts": pa.array([[{"at": AT, "n": 1}], []], pa.list_(inner)),
            "by": pa.array([{"a": AT}, None], pa.map_(pa.string(), INSTANT)),
            "n": pa.array([1, 2], pa.int64()),
        }
    )
    data = encoded(table, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(io.BytesIO(data)).schema.column(0).physical_type == "INT96"
    found = merged(data, data)
    assert found.metadata.num_row_groups == 1
    assert found.read().to_pylist() == table.to_pylist() * 2
    assert found.schema_arrow.field("at").type == INSTANT
    assert found.schema_arrow.field("parts").type.value_type.field("at").type == INSTANT
    assert found.schema_arrow.field("by").type.item_type == INSTANT


def test_local_times_ids_of_fields_and_what_spark_notes_stay() -> None:
    field = pa.field("at", LOCAL, metadata={"PARQUET:field_id": "7"})
    schema = pa.schema([field], {"org.apache.spark.legacyDateTime": ""})
    data = encoded(pa.table({"at": pa.array([AT.replace(tzinfo=None)], LOCAL)}, schema=schema))
    found = merged(data, data)
    assert found.schema_arrow.field("at").type == LOCAL
    assert found.schema_arrow.field("at").metadata == {b"PARQUET:field_id": b"7"}
    assert found.metadata.metadata[b"org.apache.spark.legacyDateTime"] == b""


def test_files_with_other_types_or_notes_have_another_layout() -> None:
    def layout(kind: pa.DataType, notes: dict[str, str] | None = None) -> bytes:
        schema = pa.schema([("n", kind)], notes)
        return ParquetPart(encoded(pa.table({"n": pa.array([1], kind)}, schema=schema))).layout

    first = layout(pa.int32())
    assert layout(pa.int64()) != first
    assert layout(pa.int32(), {"org.apache.spark.legacyINT96": ""}) != first
    assert layout(pa.int32(), {"org.apache.spark.version": "4.2.1"}) == first


def test_compression_is_that_of_the_files() -> None:
    data = encoded(pa.table({"n": [1]}), compression="zstd")
    assert merged(data).metadata.row_group(0).column(0).compression == "ZSTD"
