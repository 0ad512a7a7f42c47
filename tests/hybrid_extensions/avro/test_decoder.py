"""Avro values become exactly the declared columns, or are bad for a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.avro.decoder import AvroReader
from sources.common.conversion import BadValue
from sources.common.schema import parse_schema
from sources.decoding.row_decoder import RowDecoder
from sources.decoding.schema_registry import Registry
from sources.errors import InputError, UnavailableError
from tests.properties import examples
from tests.sources.decoding.value_case import RegistryServer, framed, registry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS: dict[str, tuple[Any, str]] = {
    "id": ("long", "bigint"),
    "small": ("int", "bigint"),
    "ms": ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
    "us": ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp"),
    "day": ({"type": "int", "logicalType": "date"}, "date"),
    "price": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "decimal(12,3)",
    ),
    "v": ("double", "double"),
    "f": ("float", "double"),
    "yes": ("boolean", "boolean"),
    "text": ("string", "string"),
    "data": ("bytes", "binary"),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "string"),
    "tags": ({"type": "array", "items": ["null", "string"]}, "array<string>"),
    "counts": ({"type": "map", "values": "int"}, "map<string,int>"),
    "inner": (
        {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]},
        "struct<x:int>",
    ),
}
COLUMNS = parse_schema({name: kind for name, (_, kind) in FIELDS.items()})
INSTANTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**31), 2**31 - 1),
    "ms": INSTANTS.map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
    ),
    "us": INSTANTS.map(lambda at: at.replace(tzinfo=UTC)),
    "local": INSTANTS,
    "day": st.dates(),
    "price": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "v": st.floats(allow_nan=False),
    "f": st.floats(allow_nan=False, width=32),
    "yes": st.booleans(),
    "text": st.text(),
    "data": st.binary(),
    "kind": st.sampled_from("AB"),
    "tags": st.lists(st.none() | st.text()),
    "counts": st.dictionaries(st.text(), st.integers(-(2**31), 2**31 - 1)),
    "inner": st.fixed_dictionaries({"x": st.integers(-(2**31), 2**31 - 1)}),
}


def schema_of(*names: str, nullable: bool = True) -> dict[str, Any]:
    fields = [
        {"name": name, "type": ["null", FIELDS[name][0]] if nullable else FIELDS[name][0]}
        for name in names
    ]
    return {"type": "record", "name": "Row", "fields": fields}


def written(row: dict[str, Any], schema: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def decode(value: bytes, schema: Any, columns: pa.Schema = COLUMNS) -> dict[str, Any]:
    """Decode one value to a row, through Arrow as in Spark's Python worker."""
    reader = AvroReader(fastavro.parse_schema(schema), None)
    row = RowDecoder(reader, columns).decode(value)
    arrays = [pa.array([each], kind) for each, kind in zip(row, columns.types, strict=True)]
    found: dict[str, Any] = pa.Table.from_arrays(arrays, columns.names).to_pylist()[0]
    return found


@examples(100)
@given(st.data())
def test_rows_come_back_whatever_is_null_missing_or_more(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(FIELDS)), unique=True, min_size=1))
    row = data.draw(st.fixed_dictionaries({name: st.none() | VALUES[name] for name in names}))
    declared = data.draw(st.lists(st.sampled_from(list(FIELDS)), unique=True, min_size=1))
    columns = parse_schema({name: FIELDS[name][1] for name in declared})
    schema = schema_of(*names)
    # Union branches are chosen by the writer: naive times are local ones.
    found = decode(written(row, schema), schema, columns)
    expected = {name: row.get(name) for name in declared}
    if (local := expected.get("local")) is not None:
        expected["local"] = local.replace(tzinfo=UTC)
    if (counts := expected.get("counts")) is not None:
        expected["counts"] = list(counts.items())
    assert found == expected


@examples(100)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_row_or_bad(data: bytes) -> None:
    schema = schema_of(*FIELDS)
    try:
        found = decode(data, schema)
    except BadValue:
        return
    assert list(found) == COLUMNS.names


@pytest.mark.parametrize(
    ("written_as", "value", "declared", "pattern"),
    [
        ("long", 2**31, "int", "`x`: 2147483648 is not a valid int"),
        ("long", 128, "tinyint", "`x`: 128 is not a valid tinyint"),
        ("string", "7", "bigint", "`x`: '7' is not a valid bigint"),
        ("boolean", True, "int", "`x`: true is not a valid int"),
        ("double", 1.0, "bigint", "`x`: 1.0 is not a valid bigint"),
        ("double", 1e300, "float", r"`x`: 1e\+300 is not a valid float"),
        ("long", 0, "timestamp", "`x`: 0 is not a valid timestamp"),
        (FIELDS["ms"][0], EPOCH, "date", "is not a valid date"),
        (
            FIELDS["price"][0],
            Decimal("1.25"),
            "decimal(10,1)",
            r"`x`: 1.25 is not a valid decimal",
        ),
        (FIELDS["price"][0], Decimal("100.00"), "decimal(4,2)", "is not a valid decimal"),
        (FIELDS["tags"][0], ["a"], "array<int>", "`x`: 'a' is not a valid int"),
        ("bytes", b"x", "string", "`x`: b'x' is not a valid string"),
    ],
)
def test_what_does_not_fit_is_bad(written_as: Any, value: Any, declared: str, pattern: str) -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": written_as}]}
    with pytest.raises(BadValue, match=pattern):
        decode(written({"x": value}, schema), schema, parse_schema({"x": declared}))


@pytest.mark.parametrize(
    ("written_as", "value", "declared", "expected"),
    [
        ("int", 7, "double", 7.0),
        ("int", 7, "decimal(5,2)", Decimal("7.00")),
        (FIELDS["price"][0], Decimal("1.20"), "decimal(10,1)", Decimal("1.2")),
        ({"type": "string", "logicalType": "uuid"}, "0" * 32, "string", None),
        (FIELDS["day"][0], date(2024, 2, 29), "date", date(2024, 2, 29)),
    ],
)
def test_what_fits_is_widened(written_as: Any, value: Any, declared: str, expected: Any) -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": written_as}]}
    found = decode(written({"x": value}, schema), schema, parse_schema({"x": declared}))
    assert found["x"] == ("00000000-0000-0000-0000-000000000000" if expected is None else expected)


def test_bytes_after_the_record_are_bad() -> None:
    schema = schema_of("id")
    with pytest.raises(BadValue, match="1 bytes are left over"):
        decode(written({"id": 5}, schema) + b"\0", schema)


@pytest.mark.parametrize("text", ["no json", '"string"', '{"type": "record"}', '{"type": "Gone"}'])
def test_a_file_that_holds_no_record_schema_is_refused_by_its_path(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(text)
    with pytest.raises(InputError, match=r"`avro_schema: .*order\.avsc` can't be read") as caught:
        AvroReader.of_file(str(path))
    assert caught.value.fields == {"field": "avro_schema", "file": str(path)}
    path.unlink()
    with pytest.raises(InputError, match=r"order\.avsc` can't be read"):
        AvroReader.of_file(str(path))


def test_the_schema_of_a_file_reads_all_values(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(schema_of("id")))
    reader = AvroReader.of_file(str(path))
    assert reader.fields(written({"id": 5}, schema_of("id"))) == {"id": 5}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def test_each_value_is_read_with_the_schema_that_it_names(server: RegistryServer) -> None:
    old, new = schema_of("id"), schema_of("text", "id")
    first, second = server.register(old), server.register(new)
    decoder = RowDecoder(
        AvroReader(None, Registry(url=server.url)), parse_schema({"id": "bigint", "text": "string"})
    )
    for _ in range(3):
        assert decoder.decode(framed(first, written({"id": 1}, old))) == [1, None]
        row = {"id": 2, "text": "x"}
        assert decoder.decode(framed(second, written(row, new))) == [2, "x"]
    # Each schema was requested once.
    assert len(server.asked) == 2


def test_schemas_may_refer_to_others(server: RegistryServer) -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "Row", "fields": [{"name": "i", "type": "a.Inner"}]}
    server.register(inner, "inner")
    number = server.register(
        outer, references=[{"name": "a.Inner", "subject": "inner", "version": 1}]
    )
    reader = AvroReader(None, Registry(url=server.url))
    assert reader.fields(framed(number, b"\x02")) == {"i": {"x": 1}}


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        (b"", "in front of the value: it is empty"),
        (b'{"id": 1}', "there is no schema id in front of the value: it starts with 7b22696422"),
        (framed(99, b"\2"), "the registry has no schema 99"),
        (framed(1, b"\2\2"), "left over"),
        (framed(2, b"\2"), "schema 2 of the registry is of type JSON"),
        (
            framed(3, b"\2"),
            "schema 3 of the registry can't be used: it is a schema of type array, not of",
        ),
    ],
)
def test_what_the_registry_can_not_explain_is_bad(
    server: RegistryServer, value: bytes, pattern: str
) -> None:
    server.register({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    server.register({}, schemaType="JSON")
    server.register({"type": "array", "items": "int"})
    with pytest.raises(BadValue, match=pattern):
        AvroReader(None, Registry(url=server.url)).fields(value)


@pytest.mark.slow
def test_a_registry_that_fails_makes_no_record_bad(server: RegistryServer) -> None:
    server.login = "me:s3cret"
    reader = AvroReader(None, Registry(url=server.url, username="me", password="wrong"))  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=f"{server.url} refuses the request: Unauthorized"
    ) as caught:
        reader.fields(framed(1, b""))
    assert "wrong" not in str(caught.value)
    assert not caught.value.transient
    assert caught.value.fields == {"server": server.url, "field": "registry"}


@pytest.mark.slow
def test_a_registry_that_does_not_answer_may_do_so_later(server: RegistryServer) -> None:
    server.broken = True
    for url in ("http://127.0.0.1:1", server.url):
        reader = AvroReader(None, Registry(url=url))
        with pytest.raises(
            UnavailableError, match=f"{url} (can't be reached|reports a failure: the store is)"
        ) as it:
            reader.fields(framed(1, b""))
        assert it.value.transient
        unreachable = {} if url == server.url else {"field": "registry.url"}
        assert it.value.fields == {"server": url, **unreachable}
        # In a batch the value is left to the reader above, which raises.
        values = pa.array([framed(1, b"")], pa.binary())
        assert reader.rows(values, parse_schema({"id": "bigint"})).null_count == 1


def test_the_login_is_sent(server: RegistryServer) -> None:
    server.login = "me:s3cret"
    server.register(schema_of("id"))
    reader = AvroReader(None, Registry(url=server.url, username="me", password="s3cret"))  # type: ignore[arg-type]
    assert reader.fields(framed(1, written({"id": 4}, schema_of("id")))) == {"id": 4}
