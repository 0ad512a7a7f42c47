"""Columns and types: Arrow schemas, and their names as Spark SQL spells them.

All parts of the project describe columns by an Arrow schema; people read and write the type names
of Spark SQL (https://spark.apache.org/docs/latest/sql-ref-datatypes.html).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from sources.errors import InputError

# All timestamps are microseconds in UTC, as Spark's TIMESTAMP, whatever unit a file has.
TIMESTAMP = pa.timestamp("us", tz="UTC")

_BY_NAME: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_ALIASES = {"integer": "int", "long": "bigint", "bool": "boolean", "short": "smallint"}
_NAMES = {arrow: name for name, arrow in _BY_NAME.items()}
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

# Spark reads Parquet's unsigned integers into the next larger signed type.
_WIDENED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def parse_type(name: str) -> pa.DataType:
    """Return the Arrow type for a Spark SQL type name such as ``bigint`` or ``decimal(10,2)``.

    Raises:
        InputError: The type is not known.

    """
    lowered = name.strip().lower()
    lowered = _ALIASES.get(lowered, lowered)
    if decimal := _DECIMAL.fullmatch(lowered):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if nested := _NESTED.fullmatch(name.strip()):
        return _parse_nested(nested[1].lower(), _split_top_level(nested[2]), name)
    try:
        return _BY_NAME[lowered]
    except KeyError:
        message = f"`{name}` is not a column type."
        hint = f"Use one of {', '.join(_BY_NAME)}, decimal(p,s), array<>, map<>, struct<>."
        raise InputError(message, hint, value=name) from None


def _parse_nested(kind: str, parts: list[str], name: str) -> pa.DataType:
    if kind == "array" and len(parts) == 1:
        return pa.list_(parse_type(parts[0]))
    if kind == "map" and len(parts) == 2:
        return pa.map_(parse_type(parts[0]), parse_type(parts[1]))
    fields = [part.partition(":") for part in parts]
    if kind == "struct" and all(separator for _, separator, _ in fields):
        return pa.struct([(field.strip(), parse_type(inner)) for field, _, inner in fields])
    message = f"`{name}` is not a column type."
    hint = "Write array<type>, map<type,type> or struct<name:type,…>."
    raise InputError(message, hint, value=name)


def _split_top_level(text: str) -> list[str]:
    """Split a text at commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def parse_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return an Arrow schema, all columns nullable, for column names and Spark SQL type names."""
    return pa.schema([pa.field(name, parse_type(kind)) for name, kind in columns.items()])


def type_name(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type that :func:`normalize` has returned."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    return _NAMES[kind]


def names_and_types(schema: pa.Schema) -> dict[str, str]:
    """Return column names and Spark SQL type names: the reverse of :func:`parse_schema`."""
    return {field.name: type_name(field.type) for field in schema}


def ddl(schema: pa.Schema) -> str:
    """Return a schema as a DDL string for Spark's readers, with quoted names."""
    quoted = ((field.name.replace("`", "``"), type_name(field.type)) for field in schema)
    return ", ".join(f"`{name}` {kind}" for name, kind in quoted)


def normalize(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Spark holds values of an Arrow type read from a file.

    A timestamp without a zone counts as UTC: Spark and Arrow write timestamps that way (Parquet's
    INT96), and this project runs Spark sessions in UTC.

    Raises:
        InputError: Spark has no such type.

    """
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return normalize(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(normalize(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(normalize(kind.key_type), normalize(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, normalize(field.type)) for field in kind])
    if pa.types.is_decimal(kind) or kind in _NAMES:
        return kind
    if kind in _WIDENED:
        return _WIDENED[kind]
    message = f"Spark has no type for `{kind}`."
    hint = "Write the column with a type that Spark reads."
    raise InputError(message, hint, value=str(kind))


def normalize_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with :func:`normalize` applied to each column; all columns are nullable.

    Raises:
        InputError: Spark has no type for a column.
    """
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, normalize(field.type)))
        except InputError as error:
            message = f"Column `{field.name}`: {error.message}"
            raise InputError(message, error.hint, column=field.name) from None
    return pa.schema(fields)


def differences(left: pa.Schema, right: pa.Schema) -> list[tuple[str, str, str]]:
    """Return the columns whose names or types differ.

    The order of columns is no difference: sources are combined by name.

    Returns:
        Tuples of column, type on the left, type on the right; ``(missing)`` without a type.

    """
    names = [*left.names, *(name for name in right.names if name not in left.names)]
    rows = []
    for name in names:
        pair = [
            type_name(schema.field(name).type) if name in schema.names else "(missing)"
            for schema in (left, right)
        ]
        if pair[0] != pair[1]:
            rows.append((name, pair[0], pair[1]))
    return rows


def check_event_time(columns: pa.Schema, event_time: str, where: str) -> None:
    """Refuse columns without a usable event time.

    Args:
        columns: Columns of a source.
        event_time: Event-time column.
        where: What the columns belong to, for messages.

    Raises:
        InputError: The column is missing, or not a timestamp.
    """
    if event_time not in columns.names:
        message = f"`event_time: {event_time}` is not in {where}."
        hint = f"It has the columns {', '.join(columns.names)}."
        raise InputError(message, hint, column=event_time, field="event_time")
    kind = columns.field(event_time).type
    if kind != TIMESTAMP:
        message = f"`event_time: {event_time}` is of type {type_name(kind)} in {where}."
        hint = "Declare it as a timestamp, or convert it with `select`."
        raise InputError(message, hint, column=event_time, field="event_time")
