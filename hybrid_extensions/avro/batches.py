"""Which Avro schemas are decoded in batches (`.columns`), and which record by record.

Decodes all types but maps, which are only skipped; of the logical types dates, timestamps and
decimals. Values of other schemas are left to the per-record decoder, and so are arrays of more than
64 items and numbers of more than 15 bytes.

Not the library `pyruhvro`, though it decodes up to twice as fast: it returns rows of values with
bytes left over, and others than were written where an `int` has more than 32 bits. Spark's
`from_avro` knows one schema rather than that of each record, and is no faster (docs/libraries.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hybrid_extensions.avro.columns import (
    AvroRecord,
    Blocks,
    Boolean,
    Bytes,
    Decimal,
    Enumeration,
    Float,
    Instant,
    Integer,
    Null,
    Type,
    Union,
)
from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import DAYS

_MICROS = {
    f"{local}timestamp-{unit}": micros
    for local in ("", "local-")
    for unit, micros in (("millis", 1_000), ("micros", 1))
}


def batch_reader(schema: Any, columns: pa.Schema) -> AvroRecord | None:
    """Build the decoder that reads many records of one Avro schema at once.

    None if the schema contains itself, or a field's type can't be converted to its column's in
    batches: such values have to be decoded one by one.

    Args:
        schema: The writer's schema, a record's, as :mod:`fastavro` parses it.
        columns: Columns, filled from the fields of the same name.
    """
    wanted = dict(zip(columns.names, columns.types, strict=True))
    try:
        return _record(schema, wanted, schema.get("__named_schemas", {}))
    except _NotInBatches:
        return None


class _NotInBatches(Exception):  # noqa: N818 - a signal, not an error
    """Signal that values of an Avro schema have to be decoded record by record."""


def _record(
    schema: Any,
    wanted: Mapping[str, pa.DataType],
    named: Mapping[str, Any],
    kind: pa.DataType | None = None,
) -> AvroRecord:
    """Build the batch decoder of an Avro record type.

    A record that contains itself raises :class:`_NotInBatches`: its own name is unknown inside it.

    Args:
        schema: The record type.
        wanted: Column types by field name; all other fields are skipped.
        named: Types by full name.
        kind: Type of the record's own column; None if there is none.
    """
    inside = {name: each for name, each in named.items() if name != schema["name"]}
    return AvroRecord(
        [
            (field["name"], _type(field["type"], wanted.get(field["name"]), inside))
            for field in schema["fields"]
        ],
        kind,
    )


def _type(schema: Any, kind: pa.DataType | None, named: Mapping[str, Any]) -> Type:
    """Build the batch decoder of an Avro type.

    Args:
        schema: The type, or the full name of one.
        kind: Type of the column; None if the values are only skipped.
        named: Types by full name.

    Raises:
        _NotInBatches: The type, or its conversion to the column's type, is not supported.
    """
    if isinstance(schema, list):
        return Union(kind, [_type(each, kind, named) for each in schema])
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    name, logical = schema, None
    if isinstance(schema, dict):
        name, logical = schema["type"], schema.get("logicalType")
    if name in ("record", "array", "map"):
        return _nested(name, schema, kind, named)
    if logical == "decimal":
        made: Type | None = _decimal(schema, kind)
    else:
        made = _time(name, logical, kind) if logical is not None else _plain(name, schema, kind)
    if made is None:
        raise _NotInBatches
    return made


def _nested(name: str, schema: Any, kind: pa.DataType | None, named: Mapping[str, Any]) -> Type:
    """Return the batch decoder of an Avro record, array or map.

    Raises:
        _NotInBatches: It does not fit its column, or is a map that is read.
    """
    if name == "record" and (kind is None or pa.types.is_struct(kind)):
        wanted = {} if kind is None else {field.name: field.type for field in kind}
        return _record(schema, wanted, named, kind)
    if name == "array" and (kind is None or pa.types.is_list(kind)):
        of_item = None if kind is None else kind.value_type
        return Blocks(kind, _type(schema["items"], of_item, named))
    if name == "map" and kind is None:
        return Blocks(None, _type(schema["values"], None, named), has_keys=True)
    raise _NotInBatches


def _decimal(schema: Any, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of an Avro decimal; None for a column of another scale."""
    precision, scale = schema["precision"], schema.get("scale", 0)
    size = schema.get("size") if schema["type"] == "fixed" else None
    if kind is None:
        return Decimal(None, precision, size)
    if not pa.types.is_decimal128(kind) or kind.scale != scale:
        return None
    return Decimal(kind, min(precision, kind.precision), size)


def _time(name: Any, logical: str, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of an Avro date or timestamp; None for other logical types."""
    if (name, logical) == ("int", "date") and kind in (None, pa.date32()):
        return Integer(kind, DAYS)
    if name == "long" and logical in _MICROS and kind in (None, TIMESTAMP):
        return Instant(kind, _MICROS[logical])
    return None


def _plain(name: Any, schema: Any, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of an Avro type that is not logical; None if there is none."""
    text, binary = kind in (None, pa.string()), kind in (None, pa.binary())
    wide = kind in (None, pa.float64())
    match name:
        case "null":
            return Null(kind)
        case "int" | "long" if wide or pa.types.is_integer(kind):
            return Integer(kind)
        case "float" if wide or kind == pa.float32():
            return Float(kind, 4)
        case "double" if wide:
            return Float(kind, 8)
        case "boolean" if kind in (None, pa.bool_()):
            return Boolean(kind)
        case "string" if text:
            return Bytes(kind, is_text=True)
        case "bytes" if binary:
            return Bytes(kind, is_text=False)
        case "fixed" if binary:
            return Bytes(kind, is_text=False, size=schema["size"])
        case "enum" if text and schema["symbols"]:
            return Enumeration(kind, schema["symbols"])
    return None
