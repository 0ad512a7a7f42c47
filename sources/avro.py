"""Values in Avro: with one schema for all, or each with the id of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from sources.errors import InputError
from sources.field_reader import Typed
from sources.fitting import BadValue
from sources.registry import Registry, schema_texts, unframe
from sources.values import Values


class AvroReader(Typed):
    """Reads each value with the schema that it was written with.

    Columns take the place of a reader's schema: matched by name, widened where nothing is lost.

    Args:
        schema: The schema of all values, parsed; or
        registry: where that of each is found.
    """

    def __init__(self, schema: Any, registry: Registry | None) -> None:
        self._schema = schema
        self._registry = registry

    @classmethod
    def of(cls, source: Values) -> AvroReader:
        """The reader that a source declares.

        Raises:
            InputError: The schema's file can't be read, or holds no record's schema.
        """
        if source.avro_schema is None:
            return cls(None, source.registry)
        try:
            text = Path(source.avro_schema).read_text(encoding="utf-8")
            return cls(parse_schemas([text]), None)
        except (OSError, ValueError) as error:
            message = f"`avro_schema: {source.avro_schema}` can't be read: {error}."
            hint = "Name a file with an Avro schema of type record, without references to others."
            raise InputError(message, hint) from None

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """The fields of the record, logical types as Python has them.

        Raises:
            BadValue: The bytes are not what the schema says, or the registry does not know it.
            InputError: The registry can't be reached.
        """
        schema, data = self._schema, value
        if self._registry is not None:
            schema_id, data = unframe(value)
            schema = _registered(self._registry, schema_id)
        stream = BytesIO(data)
        try:
            record = fastavro.schemaless_reader(stream, schema)
        # What fastavro meets in bytes that are no Avro takes many forms.
        except Exception as error:
            reason = f"the value is not of its Avro schema: {type(error).__name__}: {error}"
            raise BadValue(reason) from None
        if left := len(data) - stream.tell():
            reason = f"the value is not of its Avro schema: {left} bytes are left over"
            raise BadValue(reason)
        assert isinstance(record, dict)  # the schema is a record's
        return record


@cache
def _registered(registry: Registry, schema_id: int) -> Any:
    texts = schema_texts(registry, schema_id)
    try:
        return parse_schemas(texts)
    except ValueError as error:
        reason = f"schema {schema_id} of the registry can't be used: {error}"
        raise BadValue(reason) from None


def parse_schemas(texts: Sequence[str], *, expand: bool = False) -> Any:
    """The last of several schemas, which may refer to those before it.

    Args:
        texts: The schemas, as JSON.
        expand: Whether a type stands wherever it is named: to look into it.

    Raises:
        ValueError: It is none, or no record's.
    """
    named: dict[str, Any] = {}
    schema: Any = None
    for text in texts:
        try:
            schema = fastavro.parse_schema(json.loads(text), named_schemas=named, expand=expand)
        except (fastavro.schema.SchemaParseException, KeyError) as error:
            message = f"it is no Avro schema ({type(error).__name__}: {error})"
            raise ValueError(message) from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        message = "it is no record's schema"
        raise ValueError(message)
    return schema
