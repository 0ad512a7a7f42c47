"""Normalized Avro schemas: nanoseconds, UUIDs, times of day, decimals of Kafka Connect.

Avro ignores a logical type that is not valid or not known: the value is that of its own type
(https://avro.apache.org/docs/1.12.0/specification/#logical-types). The parser refuses some instead.
"""

from __future__ import annotations

from typing import Any

NANOS = "exact-nanos"
"""Logical type here of times in nanoseconds, which columns hold in microseconds."""
_CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Spark reads them as the type below.
_PLAIN = {
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "time-nanos"),
    ("string", "uuid"),
}
_NANOS = ("timestamp-nanos", "local-timestamp-nanos")


def normalized_schema(schema: Any) -> Any:
    """Return an Avro schema with only logical types that fastavro and Spark read alike.

    Times of day become numbers, UUIDs texts. Times in nanoseconds get the logical type
    :data:`NANOS`. A decimal of Kafka Connect, whose precision is 64 for all of its scales, or
    missing, gets one that holds the scale; any other invalid decimal becomes bytes.

    Args:
        schema: An Avro schema as JSON has it; it is not modified.
    """
    if isinstance(schema, list):
        return [normalized_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: normalized_schema(each) if name in ("type", "items", "values") else each
        for name, each in schema.items()
    }
    if isinstance(schema.get("fields"), list):
        made["fields"] = [normalized_schema(field) for field in schema["fields"]]
    kind, logical = schema.get("type"), schema.get("logicalType")
    if logical == "decimal" or (kind == "bytes" and schema.get("connect.name") == _CONNECT_DECIMAL):
        return _decimal(made)
    if isinstance(kind, str) and (kind, logical) in _PLAIN:
        del made["logicalType"]
    elif kind == "long" and logical in _NANOS:
        made["logicalType"] = NANOS
    return made


def _decimal(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a decimal's type with a precision that its scale needs; bytes if it is not valid."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    parameters = schema.get("connect.parameters")
    if schema.get("connect.name") == _CONNECT_DECIMAL:
        if isinstance(parameters, dict) and str(parameters.get("scale", "")).isdigit():
            scale = int(parameters["scale"])
        precision = max(precision if isinstance(precision, int) else 0, scale, 64)
    is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision > 0
    if not is_valid:
        return {name: each for name, each in schema.items() if name != "logicalType"}
    return {**schema, "logicalType": "decimal", "precision": precision, "scale": scale}
