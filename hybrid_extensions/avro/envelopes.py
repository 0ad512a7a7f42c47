"""Debezium's change envelopes in Avro: their schema ids, and the columns' encodings by schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybrid_extensions.avro.decoder import AvroReader, parse_schemas
from hybrid_extensions.avro.registry_client import schema_texts
from sources.decoding.changes.envelopes import OF_MYSQL, SIDES, Encoding, of_connector
from sources.decoding.schema_registry import Registry, unframe


class AvroEnvelopes:
    """Parser of envelopes in Avro, each with its schema id in front (Confluent's wire format).

    Args:
        registry: Schema registry of the ids.
    """

    def __init__(self, registry: Registry) -> None:
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
            self._known[schema_id] = _encodings(schema_texts(self._registry, schema_id))
        return envelope, self._known[schema_id]


def _encodings(texts: Sequence[str]) -> dict[str, Encoding]:
    """Read the encodings of columns from the Avro schema of an envelope.

    Kafka Connect keeps the name of a logical type there as ``connect.name``.

    Args:
        texts: The schemas that it refers to, then the schema itself, as JSON.
    """
    envelope = parse_schemas(texts, expand=True)
    rows = [
        row
        for side in envelope["fields"]
        if side["name"] in SIDES
        for row in _described(side["type"])
    ]
    sources = [kind for side in envelope["fields"] for kind in _described(side["type"])]
    is_mysql = OF_MYSQL in [each.get("connect.name") for each in sources]
    encodings: dict[str, Encoding] = {}
    for column in (column for row in rows for column in row.get("fields", [])):
        found = _encoding(column["type"])
        found = found._replace(default=column.get("default"))
        encodings[column["name"]] = of_connector(found, is_mysql=is_mysql)
    return encodings


def _encoding(kind: Any) -> Encoding:
    """Return the encoding of an Avro type; the first of a union that is more than a name counts."""
    described = _described(kind)
    if not described:
        return Encoding()
    items = described[0].get("items")
    return Encoding(
        described[0].get("connect.name"), items=None if items is None else _encoding(items)
    )


def _described(kind: Any) -> list[dict[str, Any]]:
    """Return the branches of an Avro union, or a single type, that are more than a name."""
    kinds = kind if isinstance(kind, list) else [kind]
    return [each for each in kinds if isinstance(each, dict)]
