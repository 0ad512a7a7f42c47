"""Parquet files as others write them: types that Spark's own reader has not, or reads otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from sources.common.schema import TIMESTAMP, names_and_types
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.files.listing.source_listing import list_splits
from sources.files.listing.split_table import FileListing
from sources.formats.arrow_columns import as_column
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
STORES = Stores(S3Settings())
NANOS = pa.timestamp("ns", "UTC")


def write(folder: Path, name: str, **columns: pa.Array) -> None:
    at = pa.array([NOON] * len(next(iter(columns.values()))), TIMESTAMP)
    pq.write_table(pa.table({"at": at, **columns}), folder / f"{name}.parquet")


def listing(folder: Path, **fields: Any) -> tuple[FileSource, FileListing]:
    declared = {"type": "files", "name": "h", "path": "*.parquet", "format": "parquet", **fields}
    source = FileSource.model_validate(declared)
    files = find_files(source.name, source.patterns, folder, STORES)
    return source, list_splits(source, "at", files, STORES)


def parsed(folder: Path, **fields: Any) -> list[dict[str, Any]]:
    """The rows as tasks of this project parse them, without the event time."""
    source, found = listing(folder, **fields)
    assert found.parsed is not None
    rows: list[dict[str, Any]] = []
    for split in found.splits.sort_by("path").to_pylist():
        region = Region(*(split[name] for name in Region._fields))
        for batch in read_region(format_of(source.parsed()), region, found.read, STORES):
            rows += batch.drop_columns(["at"]).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (pa.uint64(), "decimal(20,0)"),
        (pa.list_(pa.uint64(), 2), "array<decimal(20,0)>"),
        (pa.list_view(pa.int32()), "array<int>"),
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.date64(), "date"),
        (pa.duration("us"), "bigint"),
        (pa.json_(), "string"),
        (pa.uuid(), "binary"),
        (pa.decimal256(30, 2), "decimal(30,2)"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
    ],
)
def test_a_column_has_the_type_that_spark_reads(
    tmp_path: Path, stored: pa.DataType, read: str
) -> None:
    write(tmp_path, "a", x=pa.nulls(2, stored))
    _, found = listing(tmp_path)
    assert names_and_types(found.read)["x"] == read
    assert found.parsed is None


def test_nanoseconds_are_cut_off_to_microseconds(tmp_path: Path) -> None:
    values = pa.array([1999, -1, None], NANOS)
    write(tmp_path, "a", x=values, each=pa.array([[1999], None, [-1]], pa.list_(NANOS)))
    rows = parsed(tmp_path)
    first, second = (datetime.fromtimestamp(0, UTC).replace(microsecond=1), before(1))
    assert [row["x"] for row in rows] == [first, second, None]
    assert [row["each"] for row in rows] == [[first], None, [second]]


def test_a_codec_that_spark_does_not_come_with_is_read(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([NOON], TIMESTAMP), "x": pa.array(["a"])})
    pq.write_table(table, tmp_path / "a.parquet", compression="brotli")
    assert parsed(tmp_path) == [{"x": "a"}]


@pytest.mark.parametrize(
    "stored", [{"compression": {"x": "brotli"}}, {"column_encoding": {"x": "BYTE_STREAM_SPLIT"}}]
)
def test_a_codec_or_an_encoding_of_any_column_that_spark_does_not_have_is_read(
    tmp_path: Path, stored: dict[str, Any]
) -> None:
    table = pa.table({"at": pa.array([NOON], TIMESTAMP), "x": pa.array([1.5])})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False, **stored)
    assert parsed(tmp_path) == [{"x": 1.5}]


def test_a_later_file_of_the_same_writer_may_have_floats_in_another_encoding(
    tmp_path: Path,
) -> None:
    table = pa.table({"at": pa.array([NOON], TIMESTAMP), "n": [1], "x": [1.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert listing(tmp_path)[1].parsed is None
    split = {"use_dictionary": False, "column_encoding": {"x": "BYTE_STREAM_SPLIT"}}
    pq.write_table(table, tmp_path / "b.parquet", **split)
    assert listing(tmp_path)[1].parsed == str(tmp_path / "b.parquet")


def before(micros: int) -> datetime:
    return datetime(1969, 12, 31, 23, 59, 59, 1_000_000 - micros, UTC)


def test_a_column_without_any_value_has_the_type_of_the_other_files(tmp_path: Path) -> None:
    inside = pa.array([{"a": None, "b": 1}], pa.struct([("a", pa.null()), ("b", pa.int64())]))
    write(tmp_path, "a", x=pa.nulls(1), y=inside)
    full = pa.array(
        [{"a": ["t"], "b": 2}], pa.struct([("a", pa.list_(pa.string())), inside.type[1]])
    )
    write(tmp_path, "b", x=pa.array(["v"]), y=full)
    rows = [{"x": None, "y": {"a": None, "b": 1}}, {"x": "v", "y": {"a": ["t"], "b": 2}}]
    assert parsed(tmp_path) == rows
    assert parsed(tmp_path, schema_drift={}) == rows


def test_without_another_file_it_has_the_declared_type_or_that_of_spark(tmp_path: Path) -> None:
    write(tmp_path, "a", x=pa.nulls(1))
    assert names_and_types(listing(tmp_path)[1].read)["x"] == "int"
    declared = {"schema": {"at": "timestamp", "x": "string"}}
    assert names_and_types(listing(tmp_path, **declared)[1].read)["x"] == "string"
    assert parsed(tmp_path, **declared) == [{"x": None}]


def test_in_a_file_that_arrives_later_it_has_the_planned_type(tmp_path: Path) -> None:
    write(tmp_path, "a", x=pa.nulls(1))
    source, _ = listing(tmp_path)
    files = find_files(source.name, source.patterns, tmp_path, STORES)
    planned = pa.schema([("at", TIMESTAMP), ("x", pa.string())])
    assert list_splits(source, "at", files, STORES, planned=planned).read == planned


def test_files_that_are_parsed_may_differ_in_their_columns(tmp_path: Path) -> None:
    write(tmp_path, "a", old=pa.array([1], pa.int32()), seen=pa.array([1000], NANOS))
    write(tmp_path, "b", new=pa.array([2], pa.int64()), price=pa.array([Decimal("1.5")]))
    drift = {"renamed": {"old": "new"}, "defaults": {"price": 9}}
    assert parsed(tmp_path, schema_drift=drift) == [
        {"new": 1, "seen": datetime.fromtimestamp(0, UTC).replace(microsecond=1), "price": 9},
        {"new": 2, "seen": None, "price": Decimal("1.5")},
    ]


@pytest.mark.parametrize("kind", [pa.float16(), pa.time32("ms"), pa.list_(pa.time64("us"))])
def test_a_type_that_spark_has_not_is_refused_with_file_and_column_or_left_out(
    tmp_path: Path, kind: pa.DataType
) -> None:
    write(tmp_path, "a", x=pa.nulls(1, kind))
    with pytest.raises(InputError, match=r"a\.parquet: Column `x`: Spark SQL has no type") as told:
        listing(tmp_path)
    assert (told.value.fields["column"], "a.parquet" in told.value.fields["file"]) == ("x", True)
    _, found = listing(tmp_path, schema={"at": "timestamp"})
    assert found.read.names == ["at"]


def test_names_that_are_there_twice_are_refused_with_file_and_column_or_left_out(
    tmp_path: Path,
) -> None:
    at, number = pa.array([NOON], TIMESTAMP), pa.array([1])
    pq.write_table(pa.table([at, number, number], ["at", "x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: Two columns have the same name, `x`"):
        listing(tmp_path)
    assert listing(tmp_path, schema={"at": "timestamp"})[1].read.names == ["at"]
    write(tmp_path, "a", s=pa.array([{"A": 1, "a": 2}]))
    with pytest.raises(InputError, match=r"a\.parquet: Column `s`: A struct has .* `A` and `a`"):
        listing(tmp_path)
    with pytest.raises(ValidationError, match="A struct has the fields `A` and `a`"):
        listing(tmp_path, schema={"at": "timestamp", "s": "struct<A:bigint,a:bigint>"})


def test_slices_of_lists_and_maps_keep_their_items() -> None:
    lists = pa.array([[1], None, [2, 3]], pa.list_(NANOS)).slice(1)
    kept = as_column(lists, pa.list_(TIMESTAMP)).to_pylist()
    assert kept == [None, [datetime.fromtimestamp(0, UTC)] * 2]
    maps = pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int32())).slice(1)
    assert as_column(maps, pa.map_(pa.string(), pa.int64())).to_pylist() == [None, [("b", None)]]
    views = pa.array([[1], None, [2, 3]], pa.list_view(pa.int32()))
    assert as_column(views, pa.list_(pa.int64())).to_pylist() == [[1], None, [2, 3]]


def test_an_enumeration_is_a_text_as_in_spark_wherever_it_is(tmp_path: Path) -> None:
    kinds = pa.struct([("b", pa.binary()), ("x", pa.string())])
    inside = pa.array([[{"b": b"\xff", "x": "RED"}], None], pa.list_(kinds))
    write_of_java(tmp_path, {"n": pa.array([1, 2]), "x": pa.array(["RED", None]), "y": inside})
    _, found = listing(tmp_path)
    read = {"n": "bigint", "x": "string", "y": "array<struct<b:binary,x:string>>"}
    assert names_and_types(found.read) == {"at": "timestamp", **read}
    (tmp_path / "a.parquet").rename(tmp_path / "a:b.parquet")
    first = {"n": 1, "x": "RED", "y": [{"b": b"\xff", "x": "RED"}]}
    assert parsed(tmp_path) == [first, {"n": 2, "x": None, "y": None}]


def test_an_interval_that_java_marks_as_null_is_refused_or_left_out(tmp_path: Path) -> None:
    write_of_java(tmp_path, {"x": pa.array([b"twelve bytes"], pa.binary(12))})
    with pytest.raises(InputError, match=r"Column `x`: Spark SQL has no type .*interval"):
        listing(tmp_path)
    assert listing(tmp_path, schema={"at": "timestamp"})[1].read.names == ["at"]


def write_of_java(folder: Path, columns: dict[str, pa.Array]) -> None:
    """A file in which all columns `x` are marked as parquet-java marks enumerations, intervals."""
    write(folder, "a", **columns)
    path = folder / "a.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, store_schema=False, use_compliant_nested_type=True)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # Thrift's compact protocol: the name, then the converted and the logical type.
    name = b"\x18\x01x"
    footer = content[start:-8].replace(name + b"\x25\0\x4c\x1c\0\0", name + b"\x25\x08\x4c\x4c\0\0")
    footer = footer.replace(name + b"\0", name + b"\x6c\xbc\0\0\0")
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_each_row_group_may_have_an_encoding_that_spark_does_not_have(tmp_path: Path) -> None:
    # As DuckDB chooses: few values have a dictionary, many have none.
    path = tmp_path / "a.parquet"
    rows = "SELECT TIMESTAMPTZ '2024-01-01 12:00:00+00' AS at, if(i < 2048, 1.5, i / 7) AS x"
    options = "PARQUET_VERSION V2, ROW_GROUP_SIZE 2048"
    with duckdb.connect() as database:
        database.execute(f"COPY ({rows} FROM range(4096) t(i)) TO '{path}' ({options})")
    groups = pq.read_metadata(path)
    encodings = [groups.row_group(at).column(1).encodings for at in range(2)]
    assert ["BYTE_STREAM_SPLIT" in each for each in encodings] == [False, True]
    assert listing(tmp_path)[1].parsed == str(path)
