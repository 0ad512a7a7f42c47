"""Avro decoded in batches equals Avro decoded value by value."""

from __future__ import annotations

import json
import struct
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.avro.decoder import AvroReader, parse_schemas
from sources.common.schema import parse_schema
from sources.decoding.row_decoder import RowDecoder
from sources.decoding.schema_registry import Registry
from tests.hybrid_extensions.avro.test_decoder import INSTANTS, VALUES
from tests.properties import examples
from tests.sources.decoding.batch_case import compare, damaged
from tests.sources.decoding.value_case import framed, registry

LONG, SYMBOLS = 2**63 - 1, ["A", "B", "C"]
FOUR = {"type": "fixed", "name": "Four", "size": 4}
KIND = {"type": "enum", "name": "Kind", "symbols": SYMBOLS}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [
        {"name": "x", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "far", "type": ["null", {"type": "array", "items": "int"}]},
    ],
}
PLACES = st.fixed_dictionaries(
    {
        "x": st.integers(-5, 5),
        "name": st.none() | st.text(max_size=3),
        "far": st.none() | st.lists(st.integers(-5, 5), max_size=3),
    }
)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of so many digits, some of them very long or very short."""
    most = 10**digits - 1
    numbers = st.integers(-most, most) | st.integers(-300, 300) | st.sampled_from([most, -most])
    return numbers.map(lambda n: Decimal(n).scaleb(-scale, Context(prec=60)))


KINDS: dict[str, tuple[Any, list[str], st.SearchStrategy[Any]]] = {
    "long": ("long", ["bigint", "int", "tinyint", "double"], st.integers(-LONG - 1, LONG)),
    "near": ("long", ["bigint", "smallint", "double"], st.integers(-70_000, 70_000)),
    "int": ("int", ["int", "bigint"], st.integers(-(2**31), 2**31 - 1)),
    "double": ("double", ["double"], st.floats()),
    "float": ("float", ["float", "double"], st.floats(width=32)),
    "yes": ("boolean", ["boolean"], st.booleans()),
    "text": ("string", ["string"], st.text()),
    "data": ("bytes", ["binary"], st.binary()),
    "four": (FOUR, ["binary"], st.binary(min_size=4, max_size=4)),
    "kind": (KIND, ["string"], st.sampled_from(SYMBOLS)),
    "day": ({"type": "int", "logicalType": "date"}, ["date"], st.dates()),
    "ms": ({"type": "long", "logicalType": "timestamp-millis"}, ["timestamp"], VALUES["ms"]),
    "us": ({"type": "long", "logicalType": "timestamp-micros"}, ["timestamp"], VALUES["us"]),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, ["timestamp"], INSTANTS),
    "nothing": ("null", ["bigint", "string"], st.none()),
    "price": (PRICE, ["decimal(12,2)", "decimal(8,2)"], decimals(12, 2)),
    "whole": ({**PRICE, "precision": 30, "scale": 0}, ["decimal(38,0)"], decimals(30, 0)),
    "fixed_price": (
        {**PRICE, "type": "fixed", "name": "Fixed", "size": 7},
        ["decimal(12,2)"],
        decimals(12, 2),
    ),
    "tags": (
        {"type": "array", "items": ["null", "string"]},
        ["array<string>"],
        st.lists(st.none() | st.text(max_size=3), max_size=5),
    ),
    "prices": (
        {"type": "array", "items": PRICE},
        ["array<decimal(12,2)>"],
        st.lists(decimals(12, 2), max_size=3),
    ),
    "many": (
        {"type": "array", "items": "boolean"},
        ["array<boolean>"],
        st.integers(60, 70).map(lambda n: [True] * n),
    ),
    "grid": (
        {"type": "array", "items": {"type": "array", "items": "int"}},
        ["array<array<int>>", "array<array<bigint>>"],
        st.lists(st.lists(st.integers(-3, 300), max_size=3), max_size=3),
    ),
    "place": (
        PLACE,
        ["struct<x:bigint,far:array<int>>", "struct<far:array<int>,absent:string,name:string>"],
        PLACES,
    ),
    "places": (
        {"type": "array", "items": {**PLACE, "name": "Other"}},
        ["array<struct<x:int,name:string>>"],
        st.lists(PLACES, max_size=3),
    ),
    "counts": (
        {"type": "map", "values": "int"},
        ["map<string,int>"],
        st.dictionaries(st.text(max_size=3), st.integers(-3, 300), max_size=3),
    ),
}


def encoded(schema: Any, row: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


@st.composite
def topics(draw: st.DrawFn) -> tuple[Any, list[Any], dict[str, str]]:
    """Draw a schema, rows of it, and columns to read: some of its fields, and one that it lacks."""
    names = draw(st.lists(st.sampled_from(list(KINDS)), unique=True, min_size=1, max_size=6))
    fields, rows_of = [], {}
    for name in names:
        kind, _, values = KINDS[name]
        shape = draw(st.sampled_from(["plain", "null first", "null last", "nested"]))
        is_named = isinstance(kind, dict) and "name" in kind
        if kind == "null" or shape == "plain" or (shape == "nested" and is_named):
            pass
        elif shape == "nested":
            inner = {
                "type": "record",
                "name": f"In_{name}",
                "fields": [{"name": "x", "type": kind}],
            }
            kind, values = inner, values.map(lambda x: {"x": x})
        else:
            kind = ["null", kind] if shape == "null first" else [kind, "null"]
            values = st.none() | values
        fields.append({"name": name, "type": kind})
        rows_of[name] = values
    rows = draw(st.lists(st.fixed_dictionaries(rows_of), max_size=8))
    # The column of such a field would be of another type.
    nested = {
        f["name"]
        for f in fields
        if isinstance(f["type"], dict) and f["type"].get("name", "").startswith("In_")
    }
    columns = {
        name: draw(st.sampled_from(KINDS[name][1]))
        for name in names
        if name not in nested and draw(st.booleans())
    }
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    return schema, rows, {**columns, "absent": "string"}


@examples(300)
@given(topics())
def test_what_is_written_by_a_schema(topic: tuple[Any, list[Any], dict[str, str]]) -> None:
    schema, rows, columns = topic
    values: list[bytes | None] = [encoded(schema, row) for row in rows]
    compare(AvroReader(schema, None), values, parse_schema(columns))


@examples(300)
@given(topics(), st.data())
def test_damaged_values(topic: tuple[Any, list[Any], dict[str, str]], data: st.DataObject) -> None:
    schema, rows, columns = topic
    values: list[bytes | None] = [None, b""]
    for row in rows:
        values.append(damaged(data, encoded(schema, row)))
    compare(AvroReader(schema, None), values, parse_schema(columns))


def test_plain_values_are_all_read_in_a_batch() -> None:
    names = ["near", "double", "text", "us", "kind", "day", "yes", "data", "four", "float", "ms"]
    fields = [{"name": name, "type": ["null", KINDS[name][0]]} for name in names]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    columns = parse_schema({name: KINDS[name][1][0] for name in names})
    row = {
        "near": -65_536,
        "double": 0.5,
        "text": "grün",
        "us": None,
        "kind": "B",
        "yes": True,
        "data": b"\xff",
        "four": b"four",
        "float": -0.0,
        "ms": None,
        "day": None,
    }
    values: list[bytes | None] = [encoded(schema, row)] * 1_000
    assert compare(AvroReader(schema, None), values, columns) == 1_000


def test_nested_values_and_decimals_are_all_read_in_a_batch() -> None:
    names = ["price", "whole", "fixed_price", "tags", "prices", "grid", "place", "places", "counts"]
    fields = [{"name": name, "type": ["null", KINDS[name][0]]} for name in names]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    # A map is only skipped.
    columns = parse_schema({name: KINDS[name][1][0] for name in names[:-1]})
    place = {"x": 1, "name": None, "far": [3, -3]}
    row = {
        "price": Decimal("-0.01"),
        "whole": Decimal(10**30 - 1),
        "fixed_price": Decimal("9999999999.99"),
        "tags": ["a", None, ""],
        "prices": [Decimal("1.50")],
        "grid": [[], [1, 2], [3]],
        "place": place,
        "places": [place, {**place, "name": "n"}],
        "counts": {"a": 1},
    }
    empty: dict[str, Any] = {
        **dict.fromkeys(names),
        "tags": [],
        "grid": [[]],
        "places": [],
        "counts": {},
    }
    values: list[bytes | None] = [encoded(schema, row), encoded(schema, empty)] * 500
    assert compare(AvroReader(schema, None), values, columns) == 1_000


def test_blocks_may_say_how_many_bytes_they_have() -> None:
    fields = [{"name": "v", "type": {"type": "array", "items": "long"}}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    # Blocks of two items in two bytes, of one item without its bytes, and the end.
    value = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    reader = AvroReader(schema, None)
    assert compare(reader, [value, b"\x00"], parse_schema({"v": "array<bigint>"})) == 2
    rows = reader.rows(pa.array([value], pa.binary()), parse_schema({"v": "array<bigint>"}))
    assert rows.to_pylist() == [{"v": [1, 2, 3]}]


def test_long_arrays_and_numbers_are_left() -> None:
    schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "Row",
            "fields": [
                {"name": "v", "type": KINDS["many"][0]},
                {"name": "d", "type": {**PRICE, "precision": 38, "scale": 0}},
            ],
        }
    )
    columns = parse_schema({"v": "array<boolean>", "d": "decimal(38,0)"})
    rows = [(64, 10**35), (65, 1), (1, 10**37), (1, -(10**37))]
    values: list[bytes | None] = [
        encoded(schema, {"v": [True] * items, "d": Decimal(number)}) for items, number in rows
    ]
    assert compare(AvroReader(schema, None), values, columns) == 1


def test_a_bad_value_is_left_and_its_neighbours_are_read() -> None:
    schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "Row",
            "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
        }
    )
    good = encoded(schema, {"id": 7, "text": "seven"})
    # A value that is too long before one that is too short; a negative length; a ten-byte varint.
    values = [good, good + b"\x0e", good[1:], b"\x0e\x01", b"\xff" * 9 + b"\x01\x00", None, good]
    columns = parse_schema({"id": "bigint", "text": "string"})
    assert compare(AvroReader(schema, None), values, columns) == 2


def test_a_decimal_without_bytes_is_left_even_if_no_column_needs_it() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    fields = [{"name": "price", "type": kind}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    values: list[bytes | None] = [b"\x00", encoded(schema, {"price": Decimal("1.50")})]
    for column in ("price", "absent"):
        columns = parse_schema({column: "decimal(12,2)"})
        assert compare(AvroReader(schema, None), values, columns) == 1


@pytest.mark.parametrize(
    ("name", "column", "beyond"),
    [
        ("us", "timestamp", [-62_135_596_800_000_001, 253_402_300_800_000_000, 2**55]),
        ("ms", "timestamp", [-62_135_596_800_001, 253_402_300_800_000, 2**54]),
        ("day", "date", [-719_163, 2_932_897]),
        ("yes", "boolean", [1, -2]),
        ("kind", "string", [3, -1]),
    ],
)
def test_a_value_that_its_type_does_not_have_is_left(
    name: str, column: str, beyond: list[int]
) -> None:
    field = {"name": "v", "type": KINDS[name][0]}
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": [field]})
    # All of these types are encoded as a number.
    number = fastavro.parse_schema({**schema, "fields": [{"name": "v", "type": "long"}]})
    values: list[bytes | None] = [encoded(number, {"v": n}) for n in [0, *beyond]]
    assert compare(AvroReader(schema, None), values, parse_schema({"v": column})) == 1
    assert compare(AvroReader(schema, None), values, parse_schema({"w": column})) == 1


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ({"type": "array", "items": "long"}, "array<string>"),
        ({"type": "map", "values": "long"}, "map<string,bigint>"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "decimal(4,1)"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ("string", "bigint"),
        ("double", "float"),
    ],
)
@pytest.mark.parametrize("is_wanted", [True, False])
def test_what_is_not_plain_is_read_value_by_value(kind: Any, column: str, is_wanted: bool) -> None:
    field = {"name": "v", "type": kind}
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": [field]})
    columns = parse_schema({"v" if is_wanted else "w": column})
    value = bytes(8 if kind == "double" else 1)
    if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
        value = b"\x02\x07"  # one byte: a decimal without any is bad
    rows = AvroReader(schema, None).rows(pa.array([value], pa.binary()), columns)
    # Fields without a column are skipped, whatever their type, but for logical types.
    is_logical = isinstance(kind, dict) and kind.get("logicalType") not in (None, "decimal")
    assert rows.null_count == (1 if is_wanted or is_logical else 0)


def test_values_of_several_schemas_keep_their_order() -> None:
    fields = [{"name": "id", "type": "long"}]
    first = {"type": "record", "name": "Row", "fields": fields}
    second = {**first, "fields": [{"name": "more", "type": "string"}, *fields]}
    with registry() as server:
        ids = [server.register(schema) for schema in (first, second)]
        parsed = [fastavro.parse_schema(schema) for schema in (first, second)]
        values: list[bytes | None] = [
            framed(ids[n % 2], encoded(parsed[n % 2], {"id": n, "more": "x"})) for n in range(100)
        ]
        values[13:15] = [framed(99, b"\0"), b"no frame"]
        values.append(None)
        reader = AvroReader(None, Registry(url=server.url))
        columns = parse_schema({"id": "bigint"})
        assert compare(reader, values, columns) == 98
        found = reader.rows(pa.array(values, pa.binary()), columns).to_pylist()
    assert [None if row is None else row["id"] for row in found] == [
        None if n in (13, 14, 100) else n for n in range(101)
    ]


def test_types_of_one_name_in_two_namespaces_are_told_apart() -> None:
    inner = {"type": "enum", "name": "n.Inner", "symbols": ["X", "Y"]}
    other = {"type": "enum", "name": "Inner", "namespace": "", "symbols": ["A", "B"]}
    fields = [{"name": "a", "type": other}, {"name": "b", "type": "n.Inner"}]
    texts = [inner, {"type": "record", "name": "n.Row", "fields": fields}]
    schema = parse_schemas([json.dumps(each) for each in texts])
    columns = parse_schema({"a": "string", "b": "string"})
    assert compare(AvroReader(schema, None), [b"\2\2", b"\0\2", b"\2\4"], columns) == 2


def test_a_record_that_holds_itself_is_read_value_by_value() -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Row"]}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    value = encoded(schema, {"id": 1, "next": {"id": 2, "next": None}})
    assert compare(AvroReader(schema, None), [value], parse_schema({"id": "bigint"})) == 0


def test_spark_may_use_large_types_of_arrow() -> None:
    fields = [{"name": "text", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    values = pa.array([encoded(schema, {"text": text}) for text in "abc"], pa.large_binary())
    rows = RowDecoder(AvroReader(schema, None), parse_schema({"text": "string"})).rows(values)
    assert [row["text"] for row in rows.to_pylist()] == ["a", "b", "c"]


def test_many_values_in_a_slice() -> None:
    fields = [{"name": "v", "type": "double"}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    values = pa.array([struct.pack("<d", n) for n in range(100)], pa.binary()).slice(10, 5)
    rows = AvroReader(schema, None).rows(values, parse_schema({"v": "double"}))
    assert [row["v"] for row in rows.to_pylist()] == [10.0, 11.0, 12.0, 13.0, 14.0]
