"""Protobuf decoded in batches equals Protobuf decoded value by value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    message_factory,
)
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.protobuf.decoder import ProtobufReader
from sources.common.conversion import BadValue
from sources.common.schema import parse_schema
from sources.decoding.row_decoder import RowDecoder
from tests.hybrid_extensions.protobuf.test_protobuf import (
    COLUMNS,
    FRAMED,
    ORDER,
    READER,
    ROWS,
    decode,
    message,
)
from tests.properties import examples
from tests.sources.decoding.batch_case import compare, damaged
from tests.sources.decoding.value_case import FIELD, framed

LONG, INT = 2**63, 2**31
SMALL = st.integers(-3, 300)
# The Protobuf type, columns that it fits, and values.
KINDS: dict[str, tuple[int, list[str], st.SearchStrategy[Any]]] = {
    "int32": (FIELD.TYPE_INT32, ["int", "tinyint", "double"], SMALL | st.integers(-INT, INT - 1)),
    "int64": (FIELD.TYPE_INT64, ["bigint", "double"], SMALL | st.integers(-LONG, LONG - 1)),
    "uint32": (FIELD.TYPE_UINT32, ["bigint", "int"], st.integers(0, 2 * INT - 1)),
    "uint64": (FIELD.TYPE_UINT64, ["bigint"], st.integers(0, 2 * LONG - 1)),
    "sint32": (FIELD.TYPE_SINT32, ["int", "smallint"], SMALL | st.integers(-INT, INT - 1)),
    "sint64": (FIELD.TYPE_SINT64, ["bigint"], SMALL | st.integers(-LONG, LONG - 1)),
    "fixed32": (FIELD.TYPE_FIXED32, ["bigint", "int"], st.integers(0, 2 * INT - 1)),
    "fixed64": (FIELD.TYPE_FIXED64, ["bigint"], st.integers(0, 2 * LONG - 1)),
    "sfixed32": (FIELD.TYPE_SFIXED32, ["int", "bigint"], st.integers(-INT, INT - 1)),
    "sfixed64": (FIELD.TYPE_SFIXED64, ["bigint", "double"], st.integers(-LONG, LONG - 1)),
    "float": (FIELD.TYPE_FLOAT, ["float", "double"], st.floats(width=32)),
    "double": (FIELD.TYPE_DOUBLE, ["double"], st.floats()),
    "bool": (FIELD.TYPE_BOOL, ["boolean"], st.booleans()),
    "string": (FIELD.TYPE_STRING, ["string"], st.text()),
    "bytes": (FIELD.TYPE_BYTES, ["binary"], st.binary()),
    "enum": (FIELD.TYPE_ENUM, ["string"], st.sampled_from([0, 3, 7])),
}
OPTIONAL = {f"optional_{name}": kind for name, kind in KINDS.items()}
PLACES = st.fixed_dictionaries(
    {},
    optional={
        "x": st.integers(0, 300),
        "name": st.text(max_size=3),
        "far": st.lists(st.integers(-300, 300), max_size=4),
    },
)
PLACE = "struct<x:int,name:string,far:array<int>>"
# The Protobuf type of an item, columns, and lists.
LISTS: dict[str, tuple[int, list[str], st.SearchStrategy[Any]]] = {
    "longs": (FIELD.TYPE_INT64, ["array<bigint>"], st.lists(SMALL, max_size=5)),
    "loose": (FIELD.TYPE_SINT32, ["array<int>", "array<bigint>"], st.lists(SMALL, max_size=5)),
    "doubles": (FIELD.TYPE_DOUBLE, ["array<double>"], st.lists(st.floats(), max_size=3)),
    "texts": (FIELD.TYPE_STRING, ["array<string>"], st.lists(st.text(max_size=3), max_size=4)),
    "states": (FIELD.TYPE_ENUM, ["array<string>"], st.lists(st.sampled_from([0, 3, 7]))),
    "many": (FIELD.TYPE_BOOL, ["array<boolean>"], st.integers(62, 66).map(lambda n: [True] * n)),
    "places": (FIELD.TYPE_MESSAGE, [f"array<{PLACE}>"], st.lists(PLACES, max_size=3)),
}
MORE: dict[str, tuple[int, list[str], st.SearchStrategy[Any]]] = {
    "place": (FIELD.TYPE_MESSAGE, [PLACE, "struct<far:array<bigint>,absent:int>"], PLACES),
    "counts": (
        FIELD.TYPE_MESSAGE,
        ["map<string,int>"],
        st.dictionaries(st.text(max_size=3), st.integers(0, 300), max_size=3),
    ),
    **LISTS,
}
ALL = {**KINDS, **OPTIONAL, **MORE}


def described() -> bytes:
    """Return the descriptor of a message with a field of each type, with and without presence."""
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="all", syntax="proto3")
    state = file.enum_type.add(name="State")
    for name, number in (("NEW", 0), ("PAID", 3)):
        state.value.add(name=name, number=number)
    whole = file.message_type.add(name="All")
    place = file.message_type.add(name="Place")
    parts = {"x": FIELD.TYPE_INT32, "name": FIELD.TYPE_STRING, "far": FIELD.TYPE_SINT32}
    for number, (name, of_part) in enumerate(parts.items(), 1):
        label = FIELD.LABEL_REPEATED if name == "far" else FIELD.LABEL_OPTIONAL
        place.field.add(name=name, number=number, type=of_part, label=label)
    entry = whole.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        of_entry = FIELD.TYPE_STRING if name == "key" else FIELD.TYPE_INT32
        entry.field.add(name=name, number=number, type=of_entry, label=FIELD.LABEL_OPTIONAL)
    for number, (name, (kind, _, _)) in enumerate(ALL.items(), 1):
        more: dict[str, Any] = {}
        if name in OPTIONAL:
            whole.oneof_decl.add(name=f"_{name}")
            more = {"oneof_index": len(whole.oneof_decl) - 1, "proto3_optional": True}
        if kind == FIELD.TYPE_ENUM:
            more["type_name"] = ".all.State"
        if kind == FIELD.TYPE_MESSAGE:
            more["type_name"] = ".all.All.CountsEntry" if name == "counts" else ".all.Place"
        is_repeated = name in LISTS or name == "counts"
        label = FIELD.LABEL_REPEATED if is_repeated else FIELD.LABEL_OPTIONAL
        made = whole.field.add(name=name, number=number, type=kind, label=label, **more)
        if name == "loose":
            made.options.packed = False
    found = descriptor_pb2.FileDescriptorSet(file=[file])
    return found.SerializeToString()


DESCRIBED = described()
EVERY = ProtobufReader(DESCRIBED, "all.All", framed=False)


FILES = descriptor_pb2.FileDescriptorSet.FromString(DESCRIBED).file
CLASS: Any = message_factory.GetMessages(FILES)["all.All"]


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[bytes], pa.Schema]:
    """Draw messages, and columns of some of their fields."""
    names = draw(st.lists(st.sampled_from(list(ALL)), unique=True, max_size=6))
    rows_of = st.fixed_dictionaries({}, optional={name: ALL[name][2] for name in names})
    values = [CLASS(**row).SerializeToString() for row in draw(st.lists(rows_of, max_size=8))]
    columns = {name: draw(st.sampled_from(ALL[name][1])) for name in names if draw(st.booleans())}
    return values, parse_schema({**columns, "absent": "string"})


@examples(300)
@given(topics())
def test_fields_of_every_type_set_and_not_set(topic: tuple[list[bytes], pa.Schema]) -> None:
    compare(EVERY, [*topic[0]], topic[1])


@examples(300)
@given(topics(), st.data())
def test_damaged_values(topic: tuple[list[bytes], pa.Schema], data: st.DataObject) -> None:
    values, columns = topic
    compare(EVERY, [None, b"", *(damaged(data, value) for value in values)], columns)


PLAIN = [name for name in COLUMNS.names if name not in ("big", "counts", "parent")]


@examples(200)
@given(st.lists(ROWS, max_size=6), st.data())
def test_times_wrappers_and_what_is_not_plain(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(PLAIN), unique=True))
    columns = pa.schema([COLUMNS.field(name) for name in wanted] or [COLUMNS.field("id")])
    values = [message(row) for row in rows]
    broken = [damaged(data, value) for value in values]
    compare(READER, [*values, *broken], columns)


def test_plain_values_are_all_read_in_a_batch() -> None:
    columns = pa.schema([COLUMNS.field(name) for name in PLAIN])
    row = {"id": 7, "v": -0.5, "state": "PAID", "note": "grün", "data": b"\xff", "big": 9}
    values = [message(row)] * 999
    assert compare(READER, [b"", *values], columns) == 1_000


def test_lists_and_messages_are_all_read_in_a_batch() -> None:
    columns = parse_schema({name: MORE[name][1][0] for name in MORE if name != "counts"})
    place = {"x": 1, "name": "n", "far": [3, -3, 2**20]}
    row = {
        "place": place,
        "counts": {"a": 1, "b": 2},
        "longs": [1, 2**40],
        "loose": [1, -2],
        "doubles": [0.5],
        "texts": ["a", "", "grün"],
        "states": [3, 0],
        "places": [place, {}],
        "many": [True, False],
    }
    values: list[bytes | None] = [CLASS(**row).SerializeToString(), b""] * 500
    assert compare(EVERY, values, columns) == 1_000


def test_items_may_be_packed_or_not_whatever_is_declared() -> None:
    number = CLASS.DESCRIPTOR.fields_by_name["longs"].number
    packed, loose = ((number << 3 | wire).to_bytes(2, "little") for wire in (2, 0))
    # The tags take two bytes.
    packed, loose = (bytes([tag[0] & 0x7F | 0x80, number >> 4]) for tag in (packed, loose))
    value = loose + b"\x07" + packed + b"\x02\x08\x09" + loose + b"\x0a" + packed + b"\x00"
    assert CLASS.FromString(value).longs == [7, 8, 9, 10]
    columns = parse_schema({"longs": "array<bigint>"})
    assert compare(EVERY, [value, b"", value], columns) == 3
    # An item that is cut off within its packed bytes, and bytes that end before them.
    broken: list[bytes | None] = [packed + b"\x01\x80", packed + b"\x05\x01"]
    assert compare(EVERY, [*broken, value], columns) == 1


def test_a_field_that_comes_twice_or_in_another_form_is_left() -> None:
    columns = parse_schema({"id": "bigint"})
    good = message({"id": 7})
    # Twice; as a fixed number; a group; field 0; cut off; a tag too large; too many unknown ones.
    undecided = [good + good, b"\x09" + bytes(8), b"\x0b\x0c", b"\x00\x01", b"\x08"]
    undecided += [b"\xf8\xff\xff\xff\xff\xff\x01\x01", b"\xa0\x06\x01" * 1_000]
    unknown = [b"\xa0\x06\x01", b"\xa1\x06" + bytes(8), b"\xa2\x06\x03abc", b"\xa5\x06" + bytes(4)]
    assert compare(READER, [*undecided], columns) == 0
    assert compare(READER, [good + each for each in unknown], columns) == len(unknown)
    assert compare(READER, [*undecided, *unknown, good], columns) == len(unknown) + 1
    # A tag of six bytes, of which Protobuf allows five.
    assert compare(READER, [b"\x88\x80\x80\x80\x80\x00\x07"], columns) == 0


def test_what_other_readers_of_the_wire_format_get_wrong() -> None:
    # Seconds and nanoseconds of one time in two parts; negative nanoseconds; groups without an end,
    # as many as the largest record has by default.
    parts, below = b"\x12\x02\x08\x05" + b"\x12\x03\x10\xe8\x07", b"\x12\x0b\x10" + b"\xff" * 9
    columns = parse_schema({"at": "timestamp"})
    assert compare(READER, [parts, below + b"\x01", b"\x7b" * 1_000_000], columns) == 0
    assert decode(parts, columns)["at"] == datetime(1970, 1, 1, 0, 0, 5, 1, tzinfo=UTC)
    assert decode(below + b"\x01", columns)["at"] == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    with pytest.raises(BadValue):
        decode(b"\x7b" * 1_000_000, columns)


def test_of_very_many_kinds_of_fields_the_rare_ones_are_left() -> None:
    values = [bytes([0x80 | n & 0x78, 1 + (n >> 7), 1]) for n in range(0, 4_000, 8)]
    columns = parse_schema({"id": "bigint"})
    assert 0 < compare(READER, [*values], columns) < len(values)


def test_a_boolean_that_is_neither_0_nor_1_and_a_time_beyond_all_years_are_left() -> None:
    tag = bytes([CLASS.DESCRIPTOR.fields_by_name["bool"].number << 3])
    assert compare(EVERY, [tag + b"\2", tag + b"\1"], parse_schema({"bool": "boolean"})) == 1
    # The years -1 and 10000 in seconds, the second by its nanoseconds only.
    times = [(-62_167_219_201, 0), (253_402_300_800, 0), (253_402_300_799, 2**31 - 1), (7, 8)]
    values = []
    for seconds, nanos in times:
        made: Any = ORDER()
        made.at.seconds, made.at.nanos = seconds, nanos
        values.append(made.SerializeToString())
    assert compare(READER, [*values], parse_schema({"at": "timestamp"})) == 1


def test_spark_may_use_large_types_of_arrow() -> None:
    values = pa.array([b"", message({"id": 7})], pa.large_binary())
    rows = RowDecoder(READER, parse_schema({"id": "bigint"})).rows(values)
    assert rows.to_pylist() == [{"id": 0}, {"id": 7}]


@pytest.mark.parametrize("name", ["counts", "parent", "big"])
def test_columns_that_are_not_plain_are_read_value_by_value(name: str) -> None:
    values = pa.array([message({"id": 7})], pa.binary())
    assert READER.rows(values, pa.schema([COLUMNS.field(name)])) is None


def test_messages_behind_a_frame_are_decoded_in_batches() -> None:
    columns = parse_schema({"id": "bigint"})
    good = message({"id": 7})
    values: list[bytes | None] = [
        *[framed(3, good, b"\x02\x02"), framed(4, good, b"\x02\x02"), framed(3, b"", b"\x02\x02")],
        *[framed(3, good, b"\0"), framed(3, good, b"\x02\x04"), good, b"", None, b"\0\0\0\0\3\2"],
    ]
    assert compare(FRAMED, values, columns) == 3
    # The indexes of a file's first message are a single byte, or written in full.
    first = ProtobufReader(DESCRIBED, "all.All", framed=True)
    data = CLASS(int64=7).SerializeToString()
    columns = parse_schema({"int64": "bigint"})
    assert compare(first, [framed(3, data, b"\0"), framed(3, data, b"\x02\0")], columns) == 1
