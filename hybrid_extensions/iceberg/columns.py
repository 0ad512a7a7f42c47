"""Columns of an Iceberg table: types that Spark lacks are refused (time, uuid); field ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.mapped_columns import FIELD_ID, NAME_IN_FILE, MappedColumns

# Types of Iceberg and of Delta, which Spark reads alike.
_TYPES: dict[type[IcebergType], str] = {
    BinaryType: "binary",
    BooleanType: "boolean",
    DateType: "date",
    DoubleType: "double",
    FixedType: "binary",
    FloatType: "float",
    IntegerType: "integer",
    LongType: "long",
    StringType: "string",
    TimestampType: "timestamp",
    TimestamptzType: "timestamp",
}

# How a copy gets the text of a column.
_TEXT_OF = {
    "time": "PyIceberg reads it, and Arrow casts it",
    "uuid": "`CAST(… AS string)` in Spark with Iceberg",
    "variant": "`to_json(…)` in Spark with Iceberg",
}


def require_readable(source: FileSource, schema: Schema, unknown: Mapping[str, str]) -> None:
    """Refuse a column of an Iceberg table that is read and whose type Spark does not have.

    Names are compared with their case; one that the table lacks is not refused here.

    Args:
        source: Declaration of the source, whose ``schema`` may leave the column out.
        schema: Columns of the snapshot, of types that PyIceberg knows.
        unknown: Types of the other columns as text, by their names.

    Raises:
        InputError: Names the column, its type and what can be done.
    """
    for name, kind in unknown.items():
        if not source.columns or name in source.columns:
            raise _no_such_type(source.name, name, kind)
    for field in schema.fields:
        if not source.columns or field.name in source.columns:
            _type(source.name, field.field_type, field.name)


def children(field: NestedField) -> Sequence[NestedField]:
    """Return the fields inside a struct, list or map; empty for other types."""
    match field.field_type:
        case StructType() as kind:
            return kind.fields
        case ListType() as kind:
            return (kind.element_field,)
        case MapType() as kind:
            return (kind.key_field, kind.value_field)
    return ()


def all_fields(fields: Iterable[NestedField], above: str = "") -> Iterator[tuple[str, NestedField]]:
    """Yield the columns of an Iceberg schema and all fields inside them, each with its full name.

    A column comes before what is inside it. The name of a field is such as ``address.city``, or
    ``tags.element`` for the elements of a list.

    Args:
        fields: The columns.
        above: Text in front of all names; callers leave it out.
    """
    for field in fields:
        name = f"{above}{field.name}"
        yield name, field
        yield from all_fields(children(field), f"{name}.")


def mapped_columns(source: str, schema: Schema) -> MappedColumns:
    """Return the column mapping of a table: its columns are found in files by their field ids.

    Args:
        source: Name of the source, for messages.
        schema: The columns to read, of types that Spark has.

    Raises:
        InputError: A column has a type that Spark does not have.
    """
    fields = {field.name: _field(source, field, field.name) for field in schema.fields}
    return MappedColumns(mode="id", fields=fields)


def _field(source: str, field: NestedField, column: str) -> dict[str, Any]:
    """Return a column as a field of the schema in a Delta log, which is found by its field id."""
    kind = _type(source, field.field_type, column)
    metadata = {FIELD_ID: field.field_id, NAME_IN_FILE: field.name}
    return {"name": field.name, "type": kind, "nullable": True, "metadata": metadata}


def _no_such_type(source: str, column: str, kind: str) -> InputError:
    message = (
        f"Source `{source}`: column `{column}` has the Iceberg type {kind}, which Spark does not "
        "read from the table's files."
    )
    way = _TEXT_OF.get(kind, "")
    copied = way and f", or copy the table with the column as a string: {way}"
    hint = f"Declare `schema` with the other columns alone{copied}."
    return InputError(message, hint, source=source, column=column, value=kind)


def _type(source: str, kind: IcebergType, column: str) -> Any:
    """Return a type as the schema of a Delta log has it; refuse one that Spark does not have."""
    if (name := _TYPES.get(type(kind))) is not None:
        return name
    match kind:
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case StructType():
            fields = [_field(source, each, f"{column}.{each.name}") for each in kind.fields]
            return {"type": "struct", "fields": fields}
        case ListType():
            element = _type(source, kind.element_type, f"{column}.element")
            return {"type": "array", "elementType": element, "containsNull": True}
        case MapType():
            key, value = kind.key_type, kind.value_type
            return {
                "type": "map",
                "keyType": _type(source, key, f"{column}.key"),
                "valueType": _type(source, value, f"{column}.value"),
                "valueContainsNull": True,
            }
    raise _no_such_type(source, column, str(kind))
