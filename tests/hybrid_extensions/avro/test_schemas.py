"""Logical types of Avro as others declare them: read as Spark's from_avro does, or refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hybrid_extensions.avro.decoder import AvroReader, parse_schemas
from sources.common.conversion import BadValue
from sources.common.schema import parse_schema
from sources.decoding.row_decoder import RowDecoder
from sources.decoding.schema_registry import Registry
from tests.sources.decoding.value_case import framed, registry

CONNECT = "org.apache.kafka.connect.data.Decimal"
HUGE = 10**62 + 7
AT = datetime(2024, 1, 1, microsecond=5, tzinfo=UTC)
NANOS = 1_704_067_200_000_005_000


def decimal(**more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", **more}


def connect(scale: int, **more: Any) -> dict[str, Any]:
    """As Kafka Connect's converter declares a decimal."""
    parameters = {"scale": str(scale)}
    named = {"connect.version": 1, "connect.parameters": parameters, "connect.name": CONNECT}
    return decimal(scale=scale, precision=64, **named, **more)


def unscaled(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def read(kind: Any, physical: Any, written: Any, column: str) -> Any:
    """Read a value that was written as a type without its logical type, in two ways."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    plain = {**schema, "fields": [{"name": "x", "type": physical}]}
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), {"x": written})
    columns = parse_schema({"x": column})
    decoder = RowDecoder(AvroReader(parse_schemas([json.dumps(schema)]), None), columns)
    (alone,) = decoder.decode(out.getvalue())
    (together, *_) = decoder.rows(pa.array([out.getvalue()] * 3)).to_pylist()
    if together is not None:
        assert pa.scalar(alone, columns.types[0]).as_py() == together["x"]
    return alone


@pytest.mark.parametrize(
    ("kind", "physical", "written", "column", "value"),
    [
        (connect(2), "bytes", unscaled(-150), "decimal(12,2)", Decimal("-1.50")),
        (connect(0), "bytes", unscaled(10**37), "decimal(38,0)", Decimal(10**37)),
        (connect(127), "bytes", unscaled(5 * 10**126), "decimal(12,2)", Decimal("0.50")),
        (
            {"type": "bytes", "connect.name": CONNECT, "connect.parameters": {"scale": "2"}},
            *("bytes", unscaled(150), "decimal(12,2)", Decimal("1.50")),
        ),
        (["null", connect(2)], ["null", "bytes"], unscaled(150), "decimal(9,2)", Decimal("1.50")),
        # Not valid, so bytes.
        (decimal(scale=2), "bytes", b"\x01", "binary", b"\x01"),
        (decimal(precision=4, scale=10), "bytes", b"\x01", "binary", b"\x01"),
        (decimal(precision=64, scale=-2), "bytes", b"\x01", "binary", b"\x01"),
        ({"type": "int", "logicalType": "time-millis"}, "int", 36_000_000, "int", 36_000_000),
        ({"type": "long", "logicalType": "time-micros"}, "long", 5, "bigint", 5),
        ({"type": "string", "logicalType": "uuid"}, "string", "ABC", "string", "ABC"),
        ({"type": "string", "logicalType": "url"}, "string", "a", "string", "a"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "long", NANOS, "timestamp", AT),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, "long", NANOS, "timestamp", AT),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "long", 7, "bigint", 7),
        (["null", "int", "long"], ["null", "int", "long"], 2**40, "bigint", 2**40),
        (["int", "double"], ["int", "double"], 5, "double", 5.0),
    ],
)
def test_a_logical_type_is_read(
    kind: Any, physical: Any, written: Any, column: str, value: Any
) -> None:
    assert read(kind, physical, written, column) == value


@pytest.mark.parametrize(
    ("kind", "physical", "written", "column", "reason"),
    [
        (connect(2), "bytes", b"", "decimal(9,2)", "a decimal without bytes"),
        (decimal(precision=4), "bytes", b"", "decimal(9,0)", "a decimal without bytes"),
        (connect(2), "bytes", unscaled(HUGE), "decimal(38,2)", r"10000.* is not a valid"),
        (connect(127), "bytes", unscaled(5), "decimal(38,2)", "5E-127.* is not a valid decimal"),
        (decimal(scale=2), "bytes", b"\x01", "decimal(9,2)", "is not a valid decimal"),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            *("long", NANOS + 1, "timestamp", "5001 ns can't be stored exactly"),
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            *("long", 2**63 - 1, "date", "is not a valid date"),
        ),
    ],
)
def test_what_a_column_does_not_hold_is_bad(
    kind: Any, physical: Any, written: Any, column: str, reason: str
) -> None:
    with pytest.raises(BadValue, match=reason):
        read(kind, physical, written, column)


def test_each_schema_id_has_its_own_fields_and_types() -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    kind = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    later = [{"name": "e", "type": kind}, {"name": "f", "type": ["null", "E"]}]
    second = {**first, "fields": [{"name": "x", "type": "long"}, *later]}
    columns = parse_schema({"x": "bigint", "e": "string", "f": "string"})
    with registry() as server:
        values = []
        for schema, row in ((first, {"x": 1}), (second, {"x": 2**40, "e": "B", "f": "A"})):
            out = BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
            values.append(framed(server.register(schema), out.getvalue()))
        decoder = RowDecoder(AvroReader(None, Registry(url=server.url)), columns)
        assert [decoder.decode(value) for value in values] == [
            [1, None, None],
            [2**40, "B", "A"],
        ]
        assert (
            decoder.rows(pa.array(values * 2)).to_pylist()
            == [
                {"x": 1, "e": None, "f": None},
                {"x": 2**40, "e": "B", "f": "A"},
            ]
            * 2
        )
