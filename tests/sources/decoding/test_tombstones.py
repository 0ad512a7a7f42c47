"""Rows that records without a value delete: read from keys, by the runs and by the audit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pytest

from hybrid_extensions.audit.readers.values.tombstoned_rows import DeletedRows
from sources.common.conversion import BadValue
from sources.common.schema import parse_schema
from sources.decoding.schema_registry import Registry
from sources.decoding.tombstones import RowOfKey, Tombstones
from tests.sources.decoding.value_case import framed, registry

MS = 1_704_067_200_123
AT = datetime(2024, 1, 1, microsecond=123_000, tzinfo=UTC)


def both(
    key: bytes | None, columns: dict[str, str], found_by: Registry | None = None
) -> dict[str, Any]:
    """Read a key as the runs and as the audit do, which have to agree."""
    schema = parse_schema({**columns, "at": "timestamp", "city": "string"})
    made = Tombstones(RowOfKey(tuple(columns), "at"), schema, found_by).fields(key, MS)
    kinds = {name: schema.field(name).type for name in columns}
    assert DeletedRows(kinds, "at", found_by).of(key, MS) == made
    assert made.pop("at") == AT
    return made


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        (b"17", "bigint", 17),
        (b"17", "string", "17"),
        (b"true", "string", "true"),
        (b"a-17", "string", "a-17"),
        (b'"a-17"', "string", "a-17"),
        (b'{"id": 17, "more": 1}', "bigint", 17),
        (b'{"id": "17"}', "string", "17"),
        (b'{"schema": {"type": "int64"}, "payload": 17}', "bigint", 17),
        (b'{"schema": {"type": "struct"}, "payload": {"id": 17}}', "bigint", 17),
        (b"12.50", "decimal(9,2)", Decimal("12.50")),
        (b'"12.50"', "decimal(9,2)", Decimal("12.50")),
        (b'{"id": 0.1}', "decimal(38,20)", Decimal("0.10000000000000000000")),
        (b'{"id": 123456789012345678901}', "decimal(38,0)", Decimal("123456789012345678901")),
        (b"0.1", "double", 0.1),
        (b'"2024-01-31"', "date", date(2024, 1, 31)),
        (b"2024-01-31", "date", date(2024, 1, 31)),
    ],
)
def test_a_key_is_text_or_json(key: bytes, kind: str, value: Any) -> None:
    assert both(key, {"id": kind}) == {"id": value}


def test_a_key_of_several_columns_is_an_object() -> None:
    assert both(b'{"b": "x", "a": 1}', {"a": "bigint", "b": "string"}) == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("key", "columns", "reason"),
    [
        (None, {"id": "bigint"}, "it is missing"),
        (b"x", {"id": "bigint"}, "'x' is not a valid bigint"),
        (b"1.5", {"id": "bigint"}, "1.5 is not a valid bigint"),
        (b'{"id": 1.5}', {"id": "bigint"}, "1.5 is not a valid bigint"),
        (b'{"id": 17.0}', {"id": "bigint"}, "17.0 is not a valid bigint"),
        (b'{"id": 17.5}', {"id": "string"}, "17.5 is not a valid string"),
        (b"true", {"id": "bigint"}, "true is not a valid bigint"),
        (b"null", {"id": "bigint"}, "it is null"),
        (b'{"id": null}', {"id": "bigint"}, "a column of it is null"),
        (b'{"no": 1}', {"id": "bigint"}, "lacks `id`"),
        (b"[1]", {"id": "bigint"}, r"\[1\] is not a valid bigint"),
        (b"\xff", {"id": "string"}, "can't decode byte"),
        (
            b"17",
            {"a": "bigint", "b": "string"},
            r"it is one value, and `sink.key` has 2 columns \(a, b\)",
        ),
        (b'"soon"', {"id": "date"}, "Invalid isoformat"),
        (b'"soon"', {"id": "decimal(9,2)"}, "a value of it is no number$"),
    ],
)
def test_a_key_that_does_not_tell_the_row_is_bad(
    key: bytes | None, columns: dict[str, str], reason: str
) -> None:
    schema = parse_schema({**columns, "at": "timestamp"})
    tombstones = Tombstones(RowOfKey(tuple(columns), "at"), schema, None)
    with pytest.raises(BadValue, match=reason):
        tombstones.fields(key, MS)
    kinds = {name: schema.field(name).type for name in columns}
    with pytest.raises(BadValue):
        DeletedRows(kinds, "at", None).of(key, MS)


@pytest.mark.parametrize(
    ("schema", "written", "columns", "value"),
    [
        ("long", 17, {"id": "bigint"}, {"id": 17}),
        ("string", "a", {"id": "string"}, {"id": "a"}),
        (
            {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]},
            {"id": 17},
            {"id": "bigint"},
            {"id": 17},
        ),
    ],
)
def test_a_key_in_avro_has_a_schema_id_in_front(
    schema: Any, written: Any, columns: dict[str, str], value: dict[str, Any]
) -> None:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), written)
    with registry() as server:
        number = server.register(schema)
        found_by = Registry(url=server.url)
        assert both(framed(number, data.getvalue()), columns, found_by) == value
        # Of another converter than the values.
        assert both(json.dumps(written).encode(), columns, found_by) == value


def test_the_row_is_an_object_for_parsers_of_json() -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))]
    )
    tombstones = Tombstones(RowOfKey(("id", "day"), "at"), schema, None)
    made = tombstones.as_json(b'{"id": 1, "day": "2024-01-31"}', MS)
    assert orjson.loads(made) == {"id": 1, "day": "2024-01-31", "at": "2024-01-01T00:00:00.123000Z"}


def test_an_event_time_that_values_do_not_have_is_not_made_up() -> None:
    schema = parse_schema({"id": "bigint"})
    assert Tombstones(RowOfKey(("id",), "at"), schema, None).fields(b"1", MS) == {"id": 1}
