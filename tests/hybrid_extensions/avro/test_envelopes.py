"""Debezium's envelopes in Avro give the same rows as those in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from hybrid_extensions.cdc.debezium.unchanged_long_values import PLACEHOLDER
from sources.common.conversion import BadValue
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from tests.sources.decoding.value_case import (
    ORIGIN,
    RegistryServer,
    changes_source,
    decoded,
    framed,
    registry,
)

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(12,2)",
    "wide": "decimal(38,4)",
    "at": "timestamp",
    "local": "timestamp",
    "zoned": "timestamp",
    "day": "date",
    "raw": "binary",
}
ROW = {
    "id": 7,
    "name": "tea",
    "price": Decimal("12.50"),
    "wide": {"scale": 3, "value": b"\x04\xd2"},
    "at": 1_704_067_200_000_001,
    "local": 1_704_067_200_001,
    "zoned": "2024-01-01T00:00:00.000002Z",
    "day": 19_723,
    "raw": b"\x00\xff",
}


def named(kind: str, connect: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": connect, **more}


TYPES: dict[str, Any] = {
    "name": "string",
    "price": named(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        logicalType="decimal",
        precision=12,
        scale=2,
    ),
    "wide": named(
        "record",
        "io.debezium.data.VariableScaleDecimal",
        name="VariableScaleDecimal",
        namespace="io.debezium.data",
        fields=[{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    ),
    "at": named("long", "io.debezium.time.MicroTimestamp"),
    "local": named("long", "io.debezium.time.Timestamp"),
    "zoned": named("string", "io.debezium.time.ZonedTimestamp"),
    "day": named("int", "io.debezium.time.Date"),
    "raw": "bytes",
}


def optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def schema(**more: Any) -> dict[str, Any]:
    """Return a schema as an Avro converter writes it; `after` refers to the row's type by name."""
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "long"},
            *(optional(name, kind) for name, kind in {**TYPES, **more}.items()),
        ],
    }
    texts = ("connector", "snapshot", "db", "sequence", "schema", "table")
    origin = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [
            *(optional(name, "string") for name in texts),
            *(optional(name, "long") for name in ("ts_ms", "txId", "lsn")),
        ],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            optional("before", row),
            optional("after", "Value"),
            {"name": "source", "type": origin},
            {"name": "op", "type": "string"},
        ],
    }


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def source(server: RegistryServer, **more: Any) -> KafkaSource:
    return changes_source(COLUMNS, registry={"url": server.url}, **more)


def envelope(op: str = "c", **row: Any) -> dict[str, Any]:
    side = "before" if op == "d" else "after"
    return {"before": None, "after": None, side: {**ROW, **row}, "source": ORIGIN, "op": op}


def encoded(server: RegistryServer, document: Any, described: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(described), document)
    return framed(server.register(described), out.getvalue())


def test_a_change_becomes_the_row_that_it_leaves(server: RegistryServer) -> None:
    parts = {"_position": "position", "_gone": "deleted", "_tx": "transaction"}
    declared = source(server, include=parts)
    (row,) = decoded(declared, encoded(server, envelope("u"), schema()))
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    assert row == {
        "id": 7,
        "name": "tea",
        "price": Decimal("12.50"),
        "wide": Decimal("1.2340"),
        "at": begin.replace(microsecond=1),
        "local": begin.replace(microsecond=1000),
        "zoned": begin.replace(microsecond=2),
        "day": date(2024, 1, 1),
        "raw": b"\x00\xff",
        "_position": f"{1000:016x}{1040:016x}",
        "_gone": False,
        "_tx": 771,
    }


def test_each_is_read_with_the_schema_that_it_was_written_with(server: RegistryServer) -> None:
    other = schema(at=named("long", "io.debezium.time.Timestamp"))
    values = [
        encoded(server, envelope("u"), schema()),
        encoded(server, envelope("u", at=1_704_067_200_001), other),
        encoded(server, envelope("d", name=None), schema()),
    ]
    rows = decoded(source(server), *values)
    assert [row["at"].microsecond for row in rows] == [1, 1000, 1]
    assert (rows[2]["id"], rows[2]["name"]) == (7, None)


def test_logical_types_of_avro_itself_are_read_too(server: RegistryServer) -> None:
    connect = "org.apache.kafka.connect.data"
    other = schema(
        at=named("long", f"{connect}.Timestamp", logicalType="timestamp-millis"),
        day=named("int", f"{connect}.Date", logicalType="date"),
    )
    moment = datetime(2024, 1, 1, microsecond=1000, tzinfo=UTC)
    (row,) = decoded(source(server), encoded(server, envelope(at=moment, day=moment.date()), other))
    assert (row["at"], row["day"]) == (moment, moment.date())


@pytest.mark.parametrize(
    "change", [{"raw": PLACEHOLDER.encode()}, {"name": PLACEHOLDER}], ids=["bytes", "text"]
)
def test_a_long_value_that_the_log_does_not_carry_is_bad(
    server: RegistryServer, change: dict[str, Any]
) -> None:
    with pytest.raises(BadValue, match=r"is a long value .*REPLICA IDENTITY FULL"):
        decoded(source(server), encoded(server, envelope("u", **change), schema()))


def test_arrays_and_times_of_day_of_avro_are_read_by_their_logical_types(
    server: RegistryServer,
) -> None:
    micros = named("long", "io.debezium.time.MicroTimestamp")
    clock = named("int", "org.apache.kafka.connect.data.Time", logicalType="time-millis")
    parameters = {"scale": "2"}
    price = named(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        **{"logicalType": "decimal", "scale": 2, "precision": 64, "connect.parameters": parameters},
    )
    described = schema(
        times={"type": "array", "items": micros},
        prices={"type": "array", "items": price},
        at_day={"type": "array", "items": clock},
    )
    columns = {
        "times": "array<timestamp>",
        "prices": "array<decimal(12,2)>",
        "at_day": "array<int>",
    }
    more: dict[str, Any] = {
        "times": [1_704_067_200_000_001],
        "prices": [Decimal("1.50")],
        "at_day": [time(10, 0, 0, 5000)],
    }
    declared = changes_source({**COLUMNS, **columns}, registry={"url": server.url})
    (row,) = decoded(declared, encoded(server, envelope(**more), described))
    assert [row[name] for name in columns] == [
        [datetime(2024, 1, 1, microsecond=1, tzinfo=UTC)],
        [Decimal("1.50")],
        [36_000_005],
    ]


def test_an_added_column_stops_the_run(server: RegistryServer) -> None:
    value = encoded(server, envelope("u", discount=3), schema(discount="int"))
    with pytest.raises(InputError, match="a column `discount` that is not declared"):
        decoded(source(server), value)


def test_what_is_no_envelope_is_bad(server: RegistryServer) -> None:
    with pytest.raises(BadValue, match="there is no schema id in front of the value"):
        decoded(source(server), b'{"before":null}')
    other = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "long"}]}
    with pytest.raises(BadValue, match="not a change envelope"):
        decoded(source(server), encoded(server, {"id": 1}, other))
