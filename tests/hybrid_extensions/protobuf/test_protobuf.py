"""Protobuf values become exactly the declared columns, or are bad for a reason."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.protobuf.decoder import ProtobufReader
from sources.common.conversion import BadValue
from sources.common.schema import parse_schema
from sources.decoding.row_decoder import RowDecoder
from sources.errors import InputError
from tests.properties import examples
from tests.sources.decoding.batch_case import compare
from tests.sources.decoding.value_case import FIELD, MESSAGE, descriptors, framed, order_class

COLUMNS = parse_schema(
    {
        "id": "bigint",
        "at": "timestamp",
        "v": "double",
        "state": "string",
        "note": "string",
        "tags": "array<string>",
        "data": "binary",
        "big": "decimal(20,0)",
        "counts": "map<string,int>",
        "parent": "struct<id:bigint,v:double>",
        "nowhere": "string",
    }
)
READER = ProtobufReader(descriptors(), MESSAGE, framed=False)
FRAMED = ProtobufReader(descriptors(), MESSAGE, framed=True)
ORDER = order_class()
LONG = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "id": LONG,
        "at": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
        "v": st.floats(allow_nan=False),
        "state": st.sampled_from(["NEW", "PAID"]),
        "note": st.text(),
        "tags": st.lists(st.text()),
        "data": st.binary(),
        "big": st.integers(0, 2**64 - 1),
        "counts": st.dictionaries(st.text(), st.integers(-(2**31), 2**31 - 1)),
        "parent": st.fixed_dictionaries({"id": LONG}, optional={"v": st.floats(allow_nan=False)}),
    },
)
# Values of fields that were not set: those without presence have their default.
UNSET = {"id": 0, "state": "NEW", "tags": [], "data": b"", "big": 0, "counts": []}


def message(row: dict[str, Any]) -> bytes:
    made: Any = ORDER()
    for name, value in row.items():
        if name == "at":
            made.at.FromDatetime(value)
        elif name == "note":
            made.note.value = value
            made.note.SetInParent()
        elif name == "counts":
            made.counts.update(value)
        elif name == "tags":
            made.tags.extend(value)
        elif name == "state":
            made.state = {"NEW": 0, "PAID": 3}[value]
        elif name == "parent":
            made.parent.SetInParent()
            for inner, each in value.items():
                setattr(made.parent, inner, each)
        else:
            setattr(made, name, value)
    data: bytes = made.SerializeToString()
    return data


def decode(value: bytes, columns: pa.Schema = COLUMNS) -> dict[str, Any]:
    row = RowDecoder(READER, columns).decode(value)
    arrays = [pa.array([each], kind) for each, kind in zip(row, columns.types, strict=True)]
    found: dict[str, Any] = pa.Table.from_arrays(arrays, columns.names).to_pylist()[0]
    return found


@examples(100)
@given(ROWS)
def test_rows_come_back_whatever_was_not_set(row: dict[str, Any]) -> None:
    expected = {**dict.fromkeys(COLUMNS.names), **UNSET, **row}
    if "counts" in row:
        expected["counts"] = sorted(row["counts"].items())
    if "parent" in row:
        expected["parent"] = {"v": None, **row["parent"]}
    found = decode(message(row))
    assert found == expected


@examples(100)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_row_or_bad(data: bytes) -> None:
    try:
        found = decode(data)
    except BadValue:
        return
    assert list(found) == COLUMNS.names


@given(st.binary(max_size=20))
def test_any_bytes_behind_a_frame_are_a_message_or_bad(data: bytes) -> None:
    with suppress(BadValue):
        assert set(FRAMED.fields(data)) >= {"id", "at"}


@pytest.mark.parametrize("path", [b"\x02\x02", b"\x82\x00\x02"])
def test_a_frame_names_the_message_in_its_file(path: bytes) -> None:
    # One index: the second message of the file. A varint may be longer than needed.
    assert FRAMED.fields(framed(7, message({"id": 4}), path))["id"] == 4


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        (message({"id": 4}), "there is no schema id in front of the value"),
        (framed(7, message({"id": 4}), b"\x00"), r"its message indexes are \[0\], but those of"),
        (framed(7, b"", b"\x04\x02\x00"), r"its message indexes are \[1, 0\]"),
        (framed(7, b"", b"\x02"), "the message indexes are cut off"),
        (framed(7, b"", b"\x03"), "the number of message indexes in front of the value is -2"),
        (framed(7, b"", b"\xff" * 10), "a message index has more than 64 bits"),
        (framed(7, b"\x08", b"\x02\x02"), f"the value is not a valid `{MESSAGE}`"),
    ],
)
def test_another_frame_is_bad(value: bytes, pattern: str) -> None:
    with pytest.raises(BadValue, match=pattern):
        FRAMED.fields(value)


@pytest.mark.parametrize(
    ("row", "columns", "pattern"),
    [
        ({"big": 2**63}, {"big": "bigint"}, f"`big`: {2**63} is not a valid bigint"),
        ({"id": 2**31}, {"id": "int"}, f"`id`: {2**31} is not a valid int"),
        ({"id": 1}, {"id": "string"}, "`id`: 1 is not a valid string"),
        ({"state": "PAID"}, {"state": "int"}, "`state`: 'PAID' is not a valid int"),
    ],
)
def test_what_does_not_fit_is_bad(
    row: dict[str, Any], columns: dict[str, str], pattern: str
) -> None:
    with pytest.raises(BadValue, match=pattern):
        decode(message(row), parse_schema(columns))


def test_a_number_that_the_enumeration_does_not_have_is_bad() -> None:
    made: Any = ORDER(state=9)
    with pytest.raises(BadValue, match="`state`: 9 is not a valid string"):
        decode(made.SerializeToString())


def test_a_file_without_the_message_is_refused_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "shop.desc"
    for data, pattern in [
        (descriptors(), r"`message: shop\.Gone` is not in .*shop\.desc"),
        (b"\xff", r"shop\.desc` can't be read"),
    ]:
        path.write_bytes(data)
        with pytest.raises(InputError, match=pattern):
            ProtobufReader.of_file(str(path), "shop.Gone", framed=False)
    path.unlink()
    with pytest.raises(InputError, match=r"shop\.desc` can't be read"):
        ProtobufReader.of_file(str(path), "shop.Gone", framed=False)


def test_the_message_of_a_file_reads_all_values(tmp_path: Path) -> None:
    path = tmp_path / "shop.desc"
    path.write_bytes(descriptors())
    reader = ProtobufReader.of_file(str(path), MESSAGE, framed=False)
    assert reader.fields(message({"id": 3}))["id"] == 3


def older_syntax() -> dict[str, ProtobufReader]:
    """Decoders of messages of proto2: one with a required field, one with a group."""
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    kind = file.message_type.add(name="Order")
    kind.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_REQUIRED)
    part = {"type": FIELD.TYPE_MESSAGE, "type_name": ".old.Order", "label": FIELD.LABEL_OPTIONAL}
    kind.field.add(name="parent", number=2, **part)
    group = kind.nested_type.add(name="Place")
    group.field.add(name="x", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    line = file.message_type.add(name="Line")
    line.nested_type.add().CopyFrom(group)
    place = {"type": FIELD.TYPE_GROUP, "type_name": ".old.Line.Place"}
    line.field.add(name="place", number=1, label=FIELD.LABEL_OPTIONAL, **place)
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return {name: ProtobufReader(files, f"old.{name}", framed=False) for name in ("Order", "Line")}


@pytest.mark.parametrize("value", [b"", b"\x12\x02\x08\x01", b"\x08\x01\x12\x00"])
def test_a_value_without_a_required_field_is_bad_as_for_every_other_reader(value: bytes) -> None:
    reader = older_syntax()["Order"]
    assert reader.fields(b"\x08\x01\x12\x02\x08\x02")["parent"]["id"] == 2
    with pytest.raises(BadValue, match=r"`old.Order`: it lacks the required field `(parent\.)?id`"):
        reader.fields(value)


def test_a_group_that_comes_as_a_message_is_an_unknown_field_wherever_it_is_decoded() -> None:
    reader, columns = older_syntax()["Line"], parse_schema({"place": "struct<x:bigint>"})
    group, message_of_it = b"\x0b\x08\x05\x0c", b"\x0a\x02\x08\x05"
    assert reader.fields(group)["place"] == {"x": 5}
    assert reader.fields(message_of_it)["place"] is None
    compare(reader, [group, message_of_it], columns)
