"""Avro's types in files as Spark's: unions, decimals, logical types, and which are not read.

By Spark's data source (https://spark.apache.org/docs/latest/sql-data-sources-avro.html), but for
what docs/values.md lists. A logical type that Spark does not have counts as none, and so does one
of another type than Avro says (https://avro.apache.org/docs/1.12.0/specification/#logical-types).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sources.common.schema import MOST_DIGITS, TIMESTAMP
from sources.errors import InputError

_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_MILLIS = pa.timestamp("ms", "UTC")
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): _MILLIS,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): _MILLIS,
    ("long", "local-timestamp-micros"): TIMESTAMP,
}
_NUMBERS = ({"int": 32, "long": 64}, {"float": 32, "double": 64})
_DIGITS_OF_ARROW = 76


def arrow_type(schema: Any) -> pa.DataType:
    """Return the Arrow type that values of an Avro schema have, without a loss.

    It is a type of Spark, but for timestamps of milliseconds, what is null throughout, and decimals
    of more than 38 digits. A union with null has the type of the others, since all columns may be
    null; one of ``int`` and ``long`` is a ``long``, one of ``float`` and ``double`` a ``double``.

    Args:
        schema: The schema as :mod:`fastavro` parses it, each name replaced by its definition.

    Raises:
        InputError: This project does not read such values: another union, or a type that contains
            itself.
    """
    if isinstance(schema, list):
        return _of_union(schema)
    if isinstance(schema, str) and schema in _PRIMITIVE:
        return _PRIMITIVE[schema]
    if isinstance(schema, dict):
        kind = schema["type"]
        if is_decimal(schema):
            return _decimal(schema)
        if (found := _LOGICAL.get((kind, str(schema.get("logicalType"))))) is not None:
            return found
        if kind == "array":
            return pa.list_(arrow_type(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), arrow_type(schema["values"]))
        if kind == "record":
            return pa.struct(
                [(part["name"], arrow_type(part["type"])) for part in schema["fields"]]
            )
        return arrow_type(kind)
    itself = f"the type `{schema}`, which contains itself"
    raise _unread(itself)


def _of_union(branches: list[Any]) -> pa.DataType:
    others = [part for part in branches if part != "null"]
    if not others:
        return pa.null()
    if len(others) == 1:
        return arrow_type(others[0])
    names = {part if isinstance(part, str) else part["type"] for part in others}
    for numbers in _NUMBERS:
        if all(isinstance(part, str) for part in others) and names <= numbers.keys():
            return arrow_type(max(names, key=numbers.__getitem__))
    union = f"a union of {', '.join(sorted(names))}"
    raise _unread(union)


def _decimal(schema: dict[str, Any]) -> pa.DataType:
    digits, scale = schema["precision"], schema.get("scale", 0)
    if digits > _DIGITS_OF_ARROW:
        many = f"a decimal of {digits} digits"
        raise _unread(many)
    return (pa.decimal128 if digits <= MOST_DIGITS else pa.decimal256)(digits, scale)


def is_decimal(schema: Any) -> bool:
    """Return whether values of an Avro schema are decimals: the logical type, and a valid one.

    Invalid ones are plain bytes: https://avro.apache.org/docs/1.12.0/specification/#decimal
    """
    if not isinstance(schema, dict) or schema.get("logicalType") != "decimal":
        return False
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    is_valid = isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits > 0
    return is_valid and schema["type"] in ("bytes", "fixed")


def without_logical_types(schema: Any) -> Any:
    """Return a copy of an Avro schema without logical types, so that values are read as stored.

    Decimals keep theirs. Decimals whose definition is not valid lose it, too.
    """
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if is_decimal(schema):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    for part in ("type", "items", "values"):
        if part in kept:
            kept[part] = without_logical_types(kept[part])
    if "fields" in kept:
        kept["fields"] = [
            {**field, "type": without_logical_types(field["type"])} for field in kept["fields"]
        ]
    return kept


def _unread(kind: str) -> InputError:
    message = f"its Avro type is {kind}, which is not read."
    hint = (
        "Declare the other columns in `schema`, so that this one is left out; or write the files "
        "again with a primitive type, enum, fixed, record, array, map, or a union of one of them "
        "with null."
    )
    return InputError(message, hint, value=kind)
