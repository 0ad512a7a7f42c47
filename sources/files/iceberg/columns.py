"""Columns of an Iceberg table, which its files hold by field id under any name."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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

from sources.errors import InputError
from sources.files.mapped_columns import MappedColumns, mapped_field

# Types of Iceberg and of Delta, which Spark reads alike.
_TYPES: dict[type[IcebergType], str] = {
    BinaryType: "binary",
    BooleanType: "boolean",
    DateType: "date",
    DoubleType: "double",
    FloatType: "float",
    IntegerType: "integer",
    LongType: "long",
    StringType: "string",
    TimestampType: "timestamp",
    TimestamptzType: "timestamp",
}


def mapped_columns(source: str, schema: Schema) -> MappedColumns:
    """Return how the columns of a table are found in its files.

    Args:
        source: Name of the source, for messages.
        schema: Schema of the snapshot.

    Raises:
        InputError: A column has a type that Spark does not have.
    """
    fields = {field.name: _field(source, field, field.name) for field in schema.fields}
    return MappedColumns(mode="id", fields=fields)


def _field(source: str, field: NestedField, column: str) -> dict[str, Any]:
    return mapped_field(field.name, _type(source, field.field_type, column), field.field_id)


def _type(source: str, kind: IcebergType, column: str) -> Any:
    """Return a type as the schema of a Delta log has it."""
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
    message = f"Source `{source}`: column `{column}` has the Iceberg type {kind}."
    hint = "Spark reads no such column. Declare `schema` with the other columns alone."
    raise InputError(message, hint, source=source, column=column, value=str(kind))
