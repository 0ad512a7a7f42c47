"""The same rows as values of records: as converters of Kafka Connect and Debezium write them."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from random import Random
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from sources.common.schema import TIMESTAMP, type_name, with_leaves
from tests.sources.decoding.value_case import ORIGIN

DECIMAL = "org.apache.kafka.connect.data.Decimal"
_EXACT = Context(prec=60)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Form = Callable[[Any, pa.DataType], Any]


class Values(NamedTuple):
    """Values of records, and what is said about them.

    Attributes:
        values: The bytes of each.
        columns: Types of the columns that a source declares for them, by name.
        schema: The schema that an Avro converter registers; None for JSON.
    """

    values: list[bytes]
    columns: Mapping[str, pa.DataType]
    schema: dict[str, Any] | None = None


def inside(value: Any, kind: pa.DataType, leaf: Form) -> Any:
    """Change a value at its leaves; maps become dictionaries, and nulls stay nulls."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: inside(item, kind.item_type, leaf) for key, item in value}
    if pa.types.is_list(kind):
        return [inside(item, kind.value_type, leaf) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: inside(value[field.name], field.type, leaf) for field in kind}
    return leaf(value, kind)


def documents(table: pa.Table, leaf: Form) -> list[dict[str, Any]]:
    """Rows with their leaves changed."""
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    rows = table.to_pylist()
    return [{name: inside(row[name], kind, leaf) for name, kind in kinds.items()} for row in rows]


def micros(value: dt.datetime) -> int:
    """Microseconds since 1970."""
    return (value - _EPOCH) // dt.timedelta(microseconds=1)


def days(value: dt.date) -> int:
    """Days since 1970."""
    return (value - _EPOCH.date()).days


def unscaled(value: Decimal, scale: int) -> bytes:
    """The bytes of a decimal without its point, as Java's ``BigInteger`` has them."""
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)


def coded(data: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(data).decode()


def finite(value: Any) -> Any:
    """A number, or the text that ``JsonConverter`` has for one that is not finite."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


# JSON


def of_producer(table: pa.Table, random: Random) -> Values:
    """JSON of a program of one's own: times as ISO 8601, bytes in base64, decimals as numbers."""
    zone = random.choice(["Z", "+00:00", ""])

    def leaf(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind):
            return value.replace(tzinfo=None).isoformat() + zone
        if pa.types.is_date(kind):
            return value.isoformat()
        if pa.types.is_decimal(kind):
            return _Number(f"{value:f}")
        return coded(value) if pa.types.is_binary(kind) else finite(value)

    rows = documents(table, leaf)
    if random.random() < 0.5:
        rows = [{name: each for name, each in row.items() if each is not None} for row in rows]
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    return Values([_json(row) for row in rows], kinds)


def of_json_converter(table: pa.Table, random: Random) -> Values:
    """Kafka Connect's ``JsonConverter`` without schemas: times are numbers.

    Decimals are numbers with ``decimal.format=NUMERIC``, and bytes without it.
    """
    numeric = random.random() < 0.5

    def leaf(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind):
            return micros(value) // 1000
        if pa.types.is_date(kind):
            return days(value)
        if pa.types.is_decimal(kind):
            return _Number(f"{value:f}") if numeric else coded(unscaled(value, kind.scale))
        return coded(value) if pa.types.is_binary(kind) else finite(value)

    def declared(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.int64()
        if pa.types.is_date(kind):
            return pa.int32()
        return pa.binary() if pa.types.is_decimal(kind) and not numeric else kind

    kinds = {field.name: with_leaves(field.type, declared) for field in table.schema}
    return Values([_json(row) for row in documents(table, leaf)], kinds)


class _Number:
    """A number with the digits that it is written with."""

    def __init__(self, text: str) -> None:
        self.text = text


def _json(value: Any) -> bytes:
    marks: list[str] = []

    def mark(number: Any) -> str:
        marks.append(number.text)
        return f"\u0001{len(marks) - 1}\u0001"

    text = json.dumps(value, separators=(",", ":"), default=mark, ensure_ascii=False)
    for at, number in enumerate(marks):
        text = text.replace(f'"\\u0001{at}\\u0001"', number)
    return text.encode()


# Avro


def of_avro_converter(table: pa.Table, _: Random) -> Values:
    """Confluent's ``AvroConverter``: milliseconds, and decimals of 64 digits."""

    def leaf(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind):
            return micros(value) // 1000
        if pa.types.is_date(kind):
            return days(value)
        return unscaled(value, kind.scale) if pa.types.is_decimal(kind) else value

    schema = avro_schema(table, connect_types)
    return Values(
        avro_values(schema, documents(table, leaf)),
        {field.name: field.type for field in table.schema},
        schema,
    )


def in_millis(table: pa.Table) -> pa.Table:
    """Rows with times of whole milliseconds, as Kafka Connect has them."""

    def cut(leaf: pa.DataType) -> pa.DataType:
        return pa.timestamp("ms", "UTC") if pa.types.is_timestamp(leaf) else leaf

    kinds = [field.with_type(with_leaves(field.type, cut)) for field in table.schema]
    return table.cast(pa.schema(kinds), safe=False).cast(table.schema)


def connect_types(kind: pa.DataType) -> Any:
    """The type without parts that Kafka Connect's Avro converter has for a column's."""
    of = "org.apache.kafka.connect.data"
    if pa.types.is_decimal(kind):
        more = {"connect.version": 1, "connect.name": DECIMAL, "logicalType": "decimal"}
        named = {"connect.parameters": {"scale": str(kind.scale)}}
        return {"type": "bytes", "scale": kind.scale, "precision": 64, **more, **named}
    named = {
        pa.int8(): {"type": "int", "connect.type": "int8"},
        pa.int16(): {"type": "int", "connect.type": "int16"},
        pa.date32(): {"type": "int", "connect.name": f"{of}.Date", "logicalType": "date"},
        TIMESTAMP: {
            "type": "long",
            "connect.name": f"{of}.Timestamp",
            "logicalType": "timestamp-millis",
        },
    }
    return named.get(kind) or _PLAIN[kind]


_PLAIN = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int",
    pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "bytes",
}  # fmt: skip


def avro_schema(table: pa.Table, leaf: Callable[[pa.DataType], Any]) -> dict[str, Any]:
    """The schema of rows, all of whose fields may be null."""
    number = iter(range(1000))

    def optional(kind: pa.DataType) -> Any:
        if pa.types.is_map(kind):
            return ["null", {"type": "map", "values": optional(kind.item_type)}]
        if pa.types.is_list(kind):
            return ["null", {"type": "array", "items": optional(kind.value_type)}]
        if pa.types.is_struct(kind):
            fields = [{"name": each.name, "type": optional(each.type)} for each in kind]
            name = f"ConnectDefault{next(number)}"
            return ["null", {"type": "record", "name": name, "fields": fields}]
        return ["null", leaf(kind)]

    fields = [
        {"name": field.name, "type": optional(field.type), "default": None}
        for field in table.schema
    ]
    return {"type": "record", "name": "ConnectDefault", "fields": fields}


def avro_values(schema: dict[str, Any], rows: list[dict[str, Any]]) -> list[bytes]:
    """Rows in Avro, written without logical types: values are those that Avro stores."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema).replace("logicalType", "_lt")))
    found = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        found.append(out.getvalue())
    return found


# Debezium


def of_debezium(table: pa.Table, random: Random) -> Values:
    """Debezium's envelope by ``JsonConverter`` with schemas, by one of the connector's modes."""
    modes = {
        "time": random.choice(["adaptive_time_microseconds", "isostring"]),
        "decimal": random.choice(["precise", "string"]),
    }
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    schemas = [{"field": name, **_of_column(kind, modes)} for name, kind in kinds.items()]
    row = {"type": "struct", "optional": True, "fields": schemas, "name": "shop.Value"}
    source = {"type": "struct", "optional": False, "name": "io.debezium.connector.Source"}
    schema = {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {**source, "field": "source", "fields": []},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }
    values = []
    for after in documents(table, lambda value, kind: _debezium_leaf(value, kind, modes)):
        payload = {"before": None, "after": after, "source": ORIGIN, "op": "c", "ts_ms": 1}
        values.append(_json({"schema": schema, "payload": payload}))
    return Values(values, kinds)


_JSON_TYPES = {
    pa.bool_(): "boolean", pa.int8(): "int16", pa.int16(): "int16", pa.int32(): "int32",
    pa.int64(): "int64", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "bytes",
}  # fmt: skip
_TIMES = {
    "adaptive_time_microseconds": ("int64", "io.debezium.time.MicroTimestamp"),
    "isostring": ("string", "io.debezium.time.IsoTimestamp"),
}
_DAYS = {"isostring": ("string", "io.debezium.time.IsoDate")}


def of_debezium_in_avro(table: pa.Table, _: Random) -> Values:
    """The same by Confluent's ``AvroConverter``, with the connector's defaults."""

    def leaf(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind):
            return micros(value)
        if pa.types.is_date(kind):
            return days(value)
        return unscaled(value, kind.scale) if pa.types.is_decimal(kind) else value

    def kind_of(kind: pa.DataType) -> Any:
        named = {TIMESTAMP: ("long", "MicroTimestamp"), pa.date32(): ("int", "Date")}
        if kind not in named:
            return connect_types(kind)
        of, name = named[kind]
        return {"type": of, "connect.version": 1, "connect.name": f"io.debezium.time.{name}"}

    row = {**avro_schema(table, kind_of), "name": "Value"}
    names = {"connector": "string", "lsn": "long", "schema": "string", "table": "string"}
    fields = [{"name": name, "type": of} for name, of in names.items()]
    source = {"type": "record", "name": "Source", "fields": fields}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }
    envelope = {"before": None, "source": ORIGIN, "op": "c", "ts_ms": 1}
    rows = [{**envelope, "after": after} for after in documents(table, leaf)]
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    return Values(avro_values(schema, rows), kinds, schema)


def _of_column(kind: pa.DataType, modes: Mapping[str, str]) -> dict[str, Any]:
    if pa.types.is_list(kind):
        return {"type": "array", "optional": True, "items": _of_column(kind.value_type, modes)}
    if pa.types.is_timestamp(kind):
        of, name = _TIMES[modes["time"]]
        return {"type": of, "optional": True, "name": name, "version": 1}
    if pa.types.is_date(kind):
        of, name = _DAYS.get(modes["time"], ("int32", "io.debezium.time.Date"))
        return {"type": of, "optional": True, "name": name, "version": 1}
    if pa.types.is_decimal(kind) and modes["decimal"] == "string":
        return {"type": "string", "optional": True}
    if pa.types.is_decimal(kind):
        more = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return {"type": "bytes", "optional": True, "name": DECIMAL, "parameters": more}
    return {"type": _JSON_TYPES[kind], "optional": True}


def _debezium_leaf(value: Any, kind: pa.DataType, modes: Mapping[str, str]) -> Any:
    is_text = modes["time"] == "isostring"
    if pa.types.is_timestamp(kind):
        if is_text:
            return value.replace(tzinfo=None).isoformat() + "Z"
        return micros(value)
    if pa.types.is_date(kind):
        return f"{value.isoformat()}Z" if is_text else days(value)
    if pa.types.is_decimal(kind):
        is_precise = modes["decimal"] == "precise"
        return coded(unscaled(value, kind.scale)) if is_precise else f"{value:f}"
    return coded(value) if pa.types.is_binary(kind) else finite(value)


def ddl_of(columns: Mapping[str, pa.DataType]) -> dict[str, str]:
    """Types of columns as Spark SQL spells them."""
    return {name: type_name(kind) for name, kind in columns.items()}
