"""Debezium's envelopes in JSON, with or without the converter's schema; types by that schema.

With or without the converter's schema in front of each payload, record by record.
https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from sources.common.conversion import BadValue
from sources.decoding.changes.envelopes import OF_MYSQL, SIDES, Encoding, Envelopes, of_connector
from sources.decoding.registered_values import registered_values
from sources.decoding.schema_registry import Registry

_PAYLOAD = b',"payload":'
_ENVELOPE = "the `payload` of the value"
_TYPES = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_TYPES_BY_NAME = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.IsoDate": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoTimestamp": "timestamp",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
}


class JsonEnvelopes:
    """Parser of envelopes that Kafka Connect's ``JsonConverter`` wrote."""

    def __init__(self) -> None:
        # Encodings by the bytes before the payload: the converter repeats them in each record.
        self._known: dict[bytes, dict[str, Encoding]] = {}

    def open(self, value: bytes) -> tuple[dict[str, Any], Mapping[str, Encoding]]:
        """Parse a JSON value into its envelope, and the encodings of the table's columns by name.

        The encodings are empty where the value carries no schema. They are the same object for
        records that share a schema.

        Raises:
            BadValue: The value is not JSON, or it or its `payload` is not a JSON object.
        """
        head, separator, payload = value.partition(_PAYLOAD)
        encodings = self._known.get(head) if separator else None
        try:
            if encodings is not None and payload.endswith(b"}"):
                return _object(orjson.loads(payload[:-1]), _ENVELOPE), encodings
            document = _object(orjson.loads(value), "the value")
        except orjson.JSONDecodeError as error:
            reason = f"the value is not JSON: {error}"
            raise BadValue(reason) from None
        if not _has_schema(document):
            return document, {}
        encodings = _connect_encodings(document["schema"])
        if separator and _is_head(head):
            self._known[head] = encodings
        return _object(document["payload"], _ENVELOPE), encodings

    def head_of(self, value: bytes) -> bytes | None:
        """Return the bytes in front of the envelope of a JSON value that :meth:`open` has parsed.

        These are the schema and the name ``payload`` as the converter writes them, the same in each
        record of a schema; nothing if the value is the envelope itself, without a schema.

        Returns:
            None if schema and payload are there, but written otherwise, as with the payload first
            or with spaces: then the envelope is not what follows these bytes.
        """
        head, separator, _ = value.partition(_PAYLOAD)
        if head in self._known:
            return head + separator
        return None if _has_schema(_object(orjson.loads(value), "the value")) else b""


def _object(document: Any, what: str) -> dict[str, Any]:
    """Return a parsed JSON document if it is an object.

    Raises:
        BadValue: It is of another type; begins with ``what``.
    """
    if not isinstance(document, dict):
        reason = f"{what} is not a JSON object"
        raise BadValue(reason)
    return document


def _has_schema(document: Mapping[str, Any]) -> bool:
    """Return whether a document is an envelope with the converter's schema beside it."""
    return "payload" in document and "schema" in document


def _is_head(head: bytes) -> bool:
    """Return whether bytes are a schema and nothing else, rather than the start of a text value."""
    try:
        document = orjson.loads(head + _PAYLOAD + b"null}")
    except ValueError:
        return False
    return isinstance(document, dict) and document.keys() == {"schema", "payload"}


def _connect_encodings(schema: Any) -> dict[str, Encoding]:
    """Read the encodings of columns from Kafka Connect's own schema of an envelope."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    rows = [field for field in fields if field.get("field") in SIDES]
    is_mysql = OF_MYSQL in [field.get("name") for field in fields]
    return {
        column["field"]: of_connector(_connect_encoding(column), is_mysql=is_mysql)
        for row in rows
        for column in row.get("fields", [])
    }


def _connect_encoding(column: Mapping[str, Any]) -> Encoding:
    """Return the encoding of a column, or of the items of one, from Kafka Connect's schema."""
    items = column.get("items")
    return Encoding(
        column.get("name"),
        _scale(column.get("parameters")),
        column.get("default"),
        _connect_type(column),
        _connect_encoding(items) if isinstance(items, dict) else None,
    )


def _connect_type(column: Mapping[str, Any]) -> str | None:
    """Return the Spark SQL type of a column that Kafka Connect's schema describes."""
    name, kind = column.get("name"), column.get("type")
    if name == "org.apache.kafka.connect.data.Decimal":
        parameters = column.get("parameters", {})
        digits = parameters.get("connect.decimal.precision")
        return f"decimal({digits},{parameters.get('scale')})" if digits else None
    if name in _TYPES_BY_NAME:
        return _TYPES_BY_NAME[name]
    if kind == "array":
        item = _connect_type(column.get("items") or {})
        return None if item is None else f"array<{item}>"
    return _TYPES.get(str(kind))


def _scale(parameters: Any) -> int | None:
    """Return the scale of a decimal from the parameters of its type."""
    return int(parameters["scale"]) if parameters and "scale" in parameters else None


def envelopes_by(registry: Registry | None) -> Envelopes:
    """Return the parser of Debezium's envelopes: those of a registry, or in JSON without one.

    Raises:
        InputError: No installed extension decodes values of a registry, or its library is not
            installed.
    """
    return JsonEnvelopes() if registry is None else registered_values().envelopes(registry)
