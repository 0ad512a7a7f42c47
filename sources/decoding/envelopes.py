"""How Kafka Connect's converters write a change's envelope, and how its columns are written in it.

JSON, with or without the converter's schema in front of each payload, told for each record; or
Avro, with a schema registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from sources.decoding.conversion import BadValue
from sources.decoding.schema_registry import Registry, schema_texts, unframe

if TYPE_CHECKING:
    from sources.decoding.avro import AvroReader

_PAYLOAD = b',"payload":'
_SIDES = ("before", "after")


class Encoding(NamedTuple):
    """How Kafka Connect says that a column is written.

    Attributes:
        name: Of the logical type, such as ``io.debezium.time.MicroTimestamp``.
        scale: Of a decimal.
        default: Of the column, where the database has a constant one.
    """

    name: str | None = None
    scale: int | None = None
    default: Any = None


class Envelopes(Protocol):
    """Opens values."""

    def open(self, value: bytes) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """An envelope, and how its columns are written as far as that is told.

        Raises:
            BadValue: The value is none.
            InputError: What is needed to read it can't be had.
        """


class JsonEnvelopes:
    """Those of Kafka Connect's ``JsonConverter``."""

    def __init__(self) -> None:
        # The converter writes the same schema in front of each record, byte by byte.
        self._known: dict[bytes, dict[str, Encoding]] = {}

    def open(self, value: bytes) -> tuple[dict[str, Any], Mapping[str, Encoding]]:
        """See :class:`Envelopes`."""
        head, separator, payload = value.partition(_PAYLOAD)
        encodings = self._known.get(head) if separator else None
        try:
            if encodings is not None and payload.endswith(b"}"):
                return _object(orjson.loads(payload[:-1])), encodings
            found = _object(orjson.loads(value))
        except ValueError as error:
            reason = f"the value is not JSON: {error}"
            raise BadValue(reason) from None
        if not ("payload" in found and "schema" in found):
            return found, {}
        encodings = _connect_encodings(found["schema"])
        if separator and _is_head(head):
            self._known[head] = encodings
        return _object(found["payload"]), encodings


class AvroEnvelopes:
    """Those of an Avro converter, each with its schema's id in front (Confluent's wire format).

    Args:
        registry: Where the schemas are found.
    """

    def __init__(self, registry: Registry) -> None:
        # Its library is optional.
        from sources.decoding.avro import AvroReader  # noqa: PLC0415

        self._registry = registry
        self._reader: AvroReader = AvroReader(None, registry)
        self._known: dict[int, dict[str, Encoding]] = {}

    def open(self, value: bytes) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """See :class:`Envelopes`."""
        envelope = self._reader.fields(value)
        number, _ = unframe(value)
        if number not in self._known:
            self._known[number] = _avro_encodings(schema_texts(self._registry, number))
        return envelope, self._known[number]


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        reason = "the value is no JSON object"
        raise BadValue(reason)
    return found


def _is_head(head: bytes) -> bool:
    """Whether this is all that stands before a payload, rather than the text of some value."""
    try:
        found = orjson.loads(head + _PAYLOAD + b"null}")
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == {"schema", "payload"}


def _connect_encodings(schema: Any) -> dict[str, Encoding]:
    """By Kafka Connect's own schema of an envelope."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    rows = [field for field in fields if field.get("field") in _SIDES]
    return {
        column["field"]: Encoding(
            column.get("name"), _scale(column.get("parameters")), column.get("default")
        )
        for row in rows
        for column in row.get("fields", [])
    }


def _scale(parameters: Any) -> int | None:
    return int(parameters["scale"]) if parameters and "scale" in parameters else None


def _avro_encodings(texts: Sequence[str]) -> dict[str, Encoding]:
    """By the Avro schema of an envelope, which keeps the name of a type as ``connect.name``.

    Args:
        texts: The schemas that it refers to, and itself.
    """
    from sources.decoding.avro import parse_schemas  # noqa: PLC0415

    envelope = parse_schemas(texts, expand=True)
    rows = [
        row
        for side in envelope["fields"]
        if side["name"] in _SIDES
        for row in _described(side["type"])
    ]
    found: dict[str, Encoding] = {}
    for column in (column for row in rows for column in row.get("fields", [])):
        names = [kind.get("connect.name") for kind in _described(column["type"])]
        found[column["name"]] = Encoding(names[0] if names else None, default=column.get("default"))
    return found


def _described(kind: Any) -> list[dict[str, Any]]:
    """The branches of a union, or the one type that it is, as far as more than a name is told."""
    kinds = kind if isinstance(kind, list) else [kind]
    return [each for each in kinds if isinstance(each, dict)]
