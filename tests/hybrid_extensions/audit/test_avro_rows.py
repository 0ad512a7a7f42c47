"""The audit reads Avro files by their logical types, not as the runs do."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hybrid_extensions.audit.readers.avro_rows import avro_rows
from hybrid_extensions.avro.file_reader import Avro
from sources.common.schema import parse_schema, parse_type
from sources.formats.file_regions import Region
from sources.formats.open_file import open_file, read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

NOON = dt.datetime(2024, 1, 1, 12, 0, 0, 123_456, dt.UTC)
PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "d", "type": ["null", "int"]}]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("stored", "value", "kind", "wanted"),
    [
        (logical("string", "uuid"), uuid.UUID(int=7), "string", str(uuid.UUID(int=7))),
        (logical("int", "time-millis"), dt.time(1, 2, 3, 4000), "int", 3_723_004),
        (logical("long", "time-micros"), dt.time(1, 2, 3, 4), "bigint", 3_723_000_004),
        (logical("long", "timestamp-micros"), NOON, "timestamp", NOON),
        (logical("long", "local-timestamp-micros"), NOON.replace(tzinfo=None), "timestamp", NOON),
        (logical("int", "date"), dt.date(1, 1, 1), "date", dt.date(1, 1, 1)),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            Decimal("-1.50"),
            "decimal(9,2)",
            Decimal("-1.50"),
        ),
        ({"type": "map", "values": "long"}, {"a": 1}, "map<string,bigint>", [("a", 1)]),
        ({"type": "array", "items": PAIR}, [{"d": 1}], "array<struct<d:int>>", [{"d": 1}]),
        ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "string", "y"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ("float", 1.5, "float", 1.5),
    ],
)
def test_a_value_is_the_one_that_runs_read(
    tmp_path: Path, stored: Any, value: Any, kind: str, wanted: Any
) -> None:
    path = tmp_path / "x.avro"
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": ["null", stored]}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"x": value}, {"x": None}])
    columns = parse_schema({"x": kind})
    with path.open("rb") as content:
        (found,) = avro_rows(content, columns)
    assert found.to_pylist() == [{"x": wanted}, {"x": None}]
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    (by_runs,) = read_region(Avro(), region, columns, Stores(S3Settings()))
    assert by_runs.to_pylist() == found.to_pylist()
    assert found.schema.field("x").type == parse_type(kind)


@pytest.mark.parametrize(
    ("stored", "number", "kind", "wanted"),
    [
        # 0001-01-01 as older writers in Java count: two days before that day.
        (logical("int", "date"), -719_164, "date", -719_164),
        (logical("int", "date"), 2_932_897, "date", 2_932_897),
        (logical("long", "timestamp-millis"), -(10**14), "timestamp", -(10**17)),
        (logical("long", "local-timestamp-micros"), 10**18, "timestamp", 10**18),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_year_that_python_has_not_is_read_as_by_runs_also_of_a_compressed_file(
    tmp_path: Path, stored: Any, number: int, kind: str, wanted: int, suffix: str
) -> None:
    path = str(tmp_path / f"x.avro{suffix}")
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": stored}]}
    with pa.output_stream(path, compression="detect") as file:
        fastavro.writer(file, schema, [{"x": number}])
    columns, stores = parse_schema({"x": kind}), Stores(S3Settings())
    with open_file(path, Avro(), stores) as content:
        (found,) = avro_rows(content, columns)
    size = Path(path).stat().st_size
    (by_runs,) = read_region(Avro(), Region(path, 0, size, size), columns, stores)
    width = pa.int32() if kind == "date" else pa.int64()
    assert [each["x"].cast(width).to_pylist() for each in (found, by_runs)] == [[wanted]] * 2
