"""Avro files as others write them: logical types, unions, named types, schemas that changed."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sources.common.schema import names_and_types
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.files.listing.source_listing import list_splits
from sources.files.listing.split_table import FileListing
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
STORES = Stores(S3Settings())
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
MONEY = {
    "type": "record",
    "name": "Money",
    "fields": [{"name": "cents", "type": "long"}, {"name": "unit", "type": "string"}],
}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def write(path: Path, fields: list[dict[str, Any]], *rows: dict[str, Any]) -> None:
    schema = {"type": "record", "name": "Row", "fields": [AT, *fields]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"at": NOON, **row} for row in rows])


def listing(folder: Path, **fields: Any) -> tuple[FileSource, FileListing]:
    declared = {"type": "files", "name": "history", "path": "*.avro", "format": "avro", **fields}
    source = FileSource.model_validate(declared)
    files = find_files(source.name, source.patterns, folder, STORES)
    return source, list_splits(source, "at", files, STORES)


def read(folder: Path, **fields: Any) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Types and rows as a plan and the tasks that follow it read them."""
    source, found = listing(folder, **fields)
    rows = []
    for split in found.splits.sort_by("path").to_pylist():
        region = Region(*(split[name] for name in Region._fields))
        for batch in read_region(format_of(source), region, found.read, STORES):
            assert batch.schema == found.read
            rows += batch.to_pylist()
    return names_and_types(found.read), rows


def test_columns_of_each_type_have_the_type_and_values_that_spark_reads(tmp_path: Path) -> None:
    some = uuid.UUID(int=7)
    kinds: dict[str, tuple[Any, Any, str, Any]] = {
        "uuid": (logical("string", "uuid"), some, "string", str(some)),
        "millis": (logical("long", "local-timestamp-millis"), 1, "timestamp", ms(1)),
        "micros": (logical("long", "local-timestamp-micros"), 1000, "timestamp", ms(1)),
        "nanos": (logical("long", "timestamp-nanos"), 5, "bigint", 5),
        "clock": (logical("int", "time-millis"), 5, "int", 5),
        "micro_clock": (logical("long", "time-micros"), 5, "bigint", 5),
        "day": (logical("int", "date"), date(1, 1, 1), "date", date(1, 1, 1)),
        "no_day": (logical("long", "date"), 5, "bigint", 5),
        "numbers": (["null", "int", "long"], 2**40, "bigint", 2**40),
        "fractions": (["float", "double"], 0.5, "double", 0.5),
        "nothing": ("null", None, "int", None),
        "net": (MONEY, {"cents": 1, "unit": "EUR"}, "struct<cents:bigint,unit:string>", ...),
        "gross": ("Money", {"cents": 2, "unit": "EUR"}, "struct<cents:bigint,unit:string>", ...),
        "price": (logical("bytes", "decimal", precision=9, scale=2), Decimal("1.5"), *PRICE),
        "by_name": ({"type": "map", "values": "int"}, {"a": 1}, "map<string,int>", [("a", 1)]),
        "many": ({"type": "array", "items": logical("long", "timestamp-millis")}, [NOON], *MANY),
    }
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind} for name, (kind, *_) in kinds.items()
    ]
    write(tmp_path / "a.avro", fields, {name: value for name, (_, value, *_) in kinds.items()})
    types, rows = read(tmp_path)
    assert types == {"at": "timestamp", **{name: each[2] for name, each in kinds.items()}}
    wanted = {name: each[1] if each[3] is ... else each[3] for name, each in kinds.items()}
    assert rows == [{"at": NOON, **wanted}]


def ms(number: int) -> datetime:
    return datetime.fromtimestamp(number / 1000, UTC)


PRICE = ("decimal(9,2)", Decimal("1.50"))
MANY = ("array<timestamp>", [NOON])
FIRST: list[dict[str, Any]] = [{"name": "id", "type": "int"}, {"name": "cust", "type": "string"}]
SECOND: list[dict[str, Any]] = [
    {"name": "customer", "type": "string"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "id", "type": "long"},
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write(tmp_path / "a.avro", FIRST, {"id": 1, "cust": "x"})
    write(tmp_path / "b.avro", SECOND, {"id": 2**40, "customer": "y", "note": "n"})
    return tmp_path


ROWS = [
    {"at": NOON, "id": 1, "customer": "x", "note": None},
    {"at": NOON, "id": 2**40, "customer": "y", "note": "n"},
]


def test_files_of_several_schemas_are_read_as_one(archive: Path) -> None:
    drift = {"renamed": {"cust": "customer"}}
    types, rows = read(archive, schema_drift=drift)
    assert types == {"at": "timestamp", "id": "bigint", "customer": "string", "note": "string"}
    assert rows == ROWS
    with_default = {**drift, "defaults": {"note": "none"}}
    assert read(archive, schema_drift=with_default)[1][0]["note"] == "none"


def test_a_declared_schema_is_what_each_file_is_read_as(archive: Path) -> None:
    schema = {"at": "timestamp", "id": "bigint", "note": "string"}
    types, rows = read(archive, schema=schema)
    assert types == schema
    assert rows == [{name: row[name] for name in schema} for row in ROWS]


def test_without_either_they_are_refused_with_what_to_declare(archive: Path) -> None:
    with pytest.raises(InputError, match=r"files differ in their columns[\s\S]*schema_drift: \{\}"):
        read(archive)


def test_a_value_that_the_declared_type_can_not_hold_is_refused_in_the_plan(archive: Path) -> None:
    with pytest.raises(InputError, match=r"column `id` can't be read as int") as caught:
        read(archive, schema={"at": "timestamp", "id": "int"})
    assert "b.avro" in str(caught.value)


WIDE = [{"name": "amount", "type": logical("bytes", "decimal", precision=64, scale=2)}]
DECLARED = {"at": "timestamp", "amount": "decimal(38,2)"}


def test_decimals_of_more_digits_than_spark_has_are_read_as_declared(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", WIDE, {"amount": Decimal("0.99")})
    with pytest.raises(
        InputError, match=r"decimal of up to 64 digits, such as in .*a\.avro"
    ) as told:
        read(tmp_path)
    assert "`amount: decimal(38,2)`" in told.value.hint
    assert read(tmp_path, schema=DECLARED)[1] == [{"at": NOON, "amount": Decimal("0.99")}]


def test_a_decimal_that_does_not_fit_is_refused_with_file_and_column(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", WIDE, {"amount": Decimal("1" * 40)})
    with pytest.raises(InputError, match=r"a\.avro .*column `amount` is not a valid decimal"):
        read(tmp_path, schema=DECLARED)


def test_a_decimal_without_bytes_is_no_zero(tmp_path: Path) -> None:
    amount = {"name": "amount", "type": logical("bytes", "decimal", precision=4)}
    write(tmp_path / "a.avro", [amount], {"amount": b""})
    with pytest.raises(InputError, match=r"a\.avro can't be read .*a decimal without bytes"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (["int", "string"], 1, "a union of int, string"),
        (
            {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]},
            {"n": None},
            "contains itself",
        ),
        (logical("bytes", "decimal", precision=90), Decimal(1), "a decimal of 90 digits"),
    ],
)
def test_what_is_not_read_is_refused_with_file_and_column_or_left_out(
    tmp_path: Path, kind: object, value: object, told: str
) -> None:
    write(tmp_path / "a.avro", [{"name": "odd", "type": kind}], {"odd": value})
    with pytest.raises(InputError, match=rf"a\.avro: Column `odd`: .*{told}") as caught:
        read(tmp_path)
    assert caught.value.fields["column"] == "odd"
    assert read(tmp_path, schema={"at": "timestamp"})[1] == [{"at": NOON}]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_each_codec_that_spark_reads_is_read(tmp_path: Path, codec: str) -> None:
    schema = {"type": "record", "name": "Row", "fields": [AT]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"at": NOON}] * 1000, codec=codec)
    assert len(read(tmp_path)[1]) == 1000


def test_a_time_that_microseconds_can_not_hold_is_refused_with_the_file(tmp_path: Path) -> None:
    fields = [{"name": "far", "type": logical("long", "timestamp-millis")}]
    write(tmp_path / "a.avro", fields, {"far": 2**62})
    with pytest.raises(InputError, match=r"a\.avro .*column `far` is not a valid timestamp"):
        read(tmp_path)


def test_a_time_beyond_the_year_9999_is_read_as_it_is(tmp_path: Path) -> None:
    fields = [{"name": "far", "type": logical("long", "timestamp-millis")}]
    write(tmp_path / "a.avro", fields, {"far": 253402300800000})
    source, found = listing(tmp_path)
    split = found.splits.to_pylist()[0]
    region = Region(*(split[name] for name in Region._fields))
    (batch,) = read_region(format_of(source), region, found.read, STORES)
    assert batch["far"].cast(pa.int64()).to_pylist() == [253402300800000000]


def test_a_column_whose_name_the_file_has_in_another_case_is_refused_not_null(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a.avro", [{"name": "userId", "type": "string"}], {"userId": "u"})
    declared = {"at": "timestamp", "userid": "string"}
    with pytest.raises(InputError, match="`userId`, whose name differs only in upper") as refused:
        listing(tmp_path, schema=declared)
    assert "schema_drift: {renamed: {userId: userid}}" in refused.value.hint
    renamed = {"schema": declared, "schema_drift": {"renamed": {"userId": "userid"}}}
    assert read(tmp_path, **renamed)[1] == [{"at": NOON, "userid": "u"}]


@pytest.mark.parametrize(
    "mark", [{"org.apache.spark.legacyDateTime": ""}, {"org.apache.spark.version": "2.4.8"}]
)
@pytest.mark.parametrize(
    ("stored", "first"),
    [
        (logical("int", "date"), date(1582, 10, 15)),
        (logical("long", "timestamp-micros"), datetime(1900, 1, 1, tzinfo=UTC)),
    ],
)
def test_old_days_that_spark_marks_as_of_the_julian_calendar_are_refused(
    tmp_path: Path, mark: dict[str, str], stored: dict[str, Any], first: date
) -> None:
    schema = {"type": "record", "name": "Row", "fields": [AT, {"name": "x", "type": stored}]}

    def of(value: Any, **metadata: str) -> Any:
        with (tmp_path / "a.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"at": NOON, "x": value}], metadata=metadata)
        return read(tmp_path)[1][0]["x"]

    before = first - timedelta(days=1)
    assert of(first, **mark) == first
    assert of(before, **{"org.apache.spark.version": "4.2.0"}) == before
    with pytest.raises(InputError, match=r"Column `x` has a value before .* Julian calendar"):
        of(before, **mark)
