"""Values in Avro: with one schema for all, or each with the id of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sources.common.optional import needs_extra
from sources.decoding.avro_batches import Record, batch_reader
from sources.decoding.base import Typed
from sources.decoding.batch_cursor import Batch
from sources.decoding.conversion import BadValue
from sources.decoding.schema_registry import Registry, read_ids, schema_texts, unframe
from sources.decoding.value_format import Values
from sources.errors import InputError

with needs_extra("avro", "Avro"):
    import fastavro

_NO_SCHEMA = -1


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
        self._batch_readers: dict[tuple[int, pa.Schema], Record | None] = {}

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

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
        """Columns of many values at once, of those that are plain; null are the others."""
        batch = Batch(values)
        ids = np.zeros(len(batch), np.int64) if self._registry is None else read_ids(batch)
        ids = np.where(batch.is_sure, ids, _NO_SCHEMA)
        places, parts = [], []
        for schema_id in np.unique(ids).tolist():
            (chosen,) = np.nonzero(ids == schema_id)
            reader = self._batch_reader(schema_id, columns)
            if reader is None:
                part = pa.nulls(len(chosen), pa.struct(columns))
            else:
                part = reader.rows(batch.take(chosen), columns)
            places.append(chosen)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return pa.nulls(0, pa.struct(columns))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def _batch_reader(self, schema_id: int, columns: pa.Schema) -> Record | None:
        if schema_id == _NO_SCHEMA:
            return None
        key = (schema_id, columns)
        if key not in self._batch_readers:
            schema = self._schema
            if self._registry is not None:
                try:
                    schema = _registered(self._registry, schema_id)
                except (BadValue, InputError):
                    # Told of the value that is read alone.
                    return None
            self._batch_readers[key] = batch_reader(schema, columns)
        return self._batch_readers[key]


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
