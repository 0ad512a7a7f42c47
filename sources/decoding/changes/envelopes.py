"""Parsing of Debezium's change envelopes, as Kafka Connect's converters encode them.

JSON, with or without the converter's schema in front of each payload, record by record; or Avro
with a schema registry.
https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from sources.common.conversion import BadValue
from sources.decoding.schema_registry import Registry, schema_texts, unframe

if TYPE_CHECKING:
    from sources.decoding.avro.decoder import AvroReader

_PAYLOAD = b',"payload":'
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
_SIDES = ("before", "after")
_OF_MYSQL = "io.debezium.connector.mysql.Source"
MYSQL_JSON = "mysql.json"
"""Logical type of a JSON document of MySQL, which other databases keep as text."""
_JSON = "io.debezium.data.Json"


class Encoding(NamedTuple):
    """How Kafka Connect encodes a table's column, by the schema in front of a change.

    Attributes:
        name: Logical type, such as ``io.debezium.time.MicroTimestamp``; None if there is none.
        scale: Digits after the point of a decimal; None if the schema does not contain it.
        default: Constant default of the column in the database; None if there is none.
        kind: Spark SQL type to declare for the column; None if the schema does not tell.
        items: Encoding of an array's items; None if it is no array, or its items are not described.
    """

    name: str | None = None
    scale: int | None = None
    default: Any = None
    kind: str | None = None
    items: Encoding | None = None


class Envelopes(Protocol):
    """Interface of the parsers of Debezium's envelopes, one per converter of Kafka Connect.

    An envelope is the value of a Kafka record: the operation, the row before and after, and where
    the change comes from.
    """

    def open(self, value: bytes) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """Parse a value into its envelope, and the encodings of the table's columns by name.

        The encodings are empty where the value carries no schema. They are the same object for
        records that share a schema.

        Raises:
            BadValue: The value can't be parsed.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """


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
            BadValue: The value is not JSON, or its envelope is not a JSON object.
        """
        head, separator, payload = value.partition(_PAYLOAD)
        encodings = self._known.get(head) if separator else None
        try:
            if encodings is not None and payload.endswith(b"}"):
                return _object(orjson.loads(payload[:-1])), encodings
            document = _object(orjson.loads(value))
        except ValueError as error:
            reason = f"the value is not JSON: {error}"
            raise BadValue(reason) from None
        if not ("payload" in document and "schema" in document):
            return document, {}
        encodings = _connect_encodings(document["schema"])
        if separator and _is_head(head):
            self._known[head] = encodings
        return _object(document["payload"]), encodings

    def head_of(self, value: bytes) -> bytes | None:
        """Return the bytes in front of the payload of a JSON value that :meth:`open` has parsed.

        They are the schema and the name ``payload``, as other records repeat them; empty for an
        envelope without a schema; None if the value is written in another way, so that no other is
        like it.
        """
        head, separator, _ = value.partition(_PAYLOAD)
        if head in self._known:
            return head + separator
        return None if value.lstrip().startswith(b'{"schema"') else b""


class AvroEnvelopes:
    """Parser of envelopes in Avro, each with its schema id in front (Confluent's wire format).

    Args:
        registry: Schema registry of the ids.
    """

    def __init__(self, registry: Registry) -> None:
        # Its library is optional.
        from sources.decoding.avro.decoder import AvroReader  # noqa: PLC0415

        self._registry = registry
        self._reader: AvroReader = AvroReader(None, registry)
        self._known: dict[int, dict[str, Encoding]] = {}

    def open(self, value: bytes) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """Decode an Avro value into its envelope, and the encodings of the table's columns by name.

        The encodings are the same object for records that share a schema.

        Raises:
            BadValue: The value has no schema id in front, does not match its schema, or the
                registry does not have that schema.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        envelope = self._reader.fields(value)
        schema_id, _ = unframe(value)
        if schema_id not in self._known:
            self._known[schema_id] = _avro_encodings(schema_texts(self._registry, schema_id))
        return envelope, self._known[schema_id]


def _object(document: Any) -> dict[str, Any]:
    """Return a parsed JSON document if it is an object.

    Raises:
        BadValue: It is of another type.
    """
    if not isinstance(document, dict):
        reason = "the value is not a JSON object"
        raise BadValue(reason)
    return document


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
    rows = [field for field in fields if field.get("field") in _SIDES]
    is_mysql = _OF_MYSQL in [field.get("name") for field in fields]
    return {
        column["field"]: _of_connector(_connect_encoding(column), is_mysql=is_mysql)
        for row in rows
        for column in row.get("fields", [])
    }


def _of_connector(encoding: Encoding, *, is_mysql: bool) -> Encoding:
    """Return an encoding with the name of the type that MySQL alone has."""
    return encoding._replace(name=MYSQL_JSON) if is_mysql and encoding.name == _JSON else encoding


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


def _avro_encodings(texts: Sequence[str]) -> dict[str, Encoding]:
    """Read the encodings of columns from the Avro schema of an envelope.

    Kafka Connect keeps the name of a logical type there as ``connect.name``.

    Args:
        texts: The schemas that it refers to, then the schema itself, as JSON.
    """
    from sources.decoding.avro.decoder import parse_schemas  # noqa: PLC0415

    envelope = parse_schemas(texts, expand=True)
    rows = [
        row
        for side in envelope["fields"]
        if side["name"] in _SIDES
        for row in _described(side["type"])
    ]
    sources = [kind for side in envelope["fields"] for kind in _described(side["type"])]
    is_mysql = _OF_MYSQL in [each.get("connect.name") for each in sources]
    encodings: dict[str, Encoding] = {}
    for column in (column for row in rows for column in row.get("fields", [])):
        found = _avro_encoding(column["type"])
        found = found._replace(default=column.get("default"))
        encodings[column["name"]] = _of_connector(found, is_mysql=is_mysql)
    return encodings


def _avro_encoding(kind: Any) -> Encoding:
    """Return the encoding of an Avro type; the first of a union that is more than a name counts."""
    described = _described(kind)
    if not described:
        return Encoding()
    items = described[0].get("items")
    return Encoding(
        described[0].get("connect.name"), items=None if items is None else _avro_encoding(items)
    )


def _described(kind: Any) -> list[dict[str, Any]]:
    """Return the branches of an Avro union, or a single type, that are more than a name."""
    kinds = kind if isinstance(kind, list) else [kind]
    return [each for each in kinds if isinstance(each, dict)]
