"""Decoding of Avro values by the writer's schema: one of a file, or by each value's schema id."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hybrid_extensions.avro.batches import batch_reader
from hybrid_extensions.avro.columns import AvroRecord
from hybrid_extensions.avro.registry_client import schema_texts
from hybrid_extensions.avro.schemas import NANOS, normalized_schema
from sources.common.conversion import BadValue, Nanos
from sources.common.optional import needs_extra
from sources.decoding.base import BaseReader
from sources.decoding.batch_cursor import Batch
from sources.decoding.schema_registry import Registry, read_ids, unframe
from sources.errors import InputError, UnavailableError

with needs_extra("avro", "Avro"):
    import fastavro

    from hybrid_extensions.avro.empty_decimals import refuse_empty_decimals

_NO_SCHEMA = -1
fastavro.read.LOGICAL_READERS[f"long-{NANOS}"] = lambda ns, *_: Nanos(ns)
refuse_empty_decimals()


class AvroReader(BaseReader):
    """Decoder of Avro values, each by the schema that it was written with.

    Exactly one of the two arguments is given. There is no reader's schema: fields are matched with
    columns by name, and widened where nothing is lost.

    Args:
        schema: The writer's schema of all values, as fastavro parses it; None with a registry.
        registry: Schema registry of the ids in front of the values; None with one schema for all.
    """

    def __init__(self, schema: Any, registry: Registry | None) -> None:
        self._schema = schema
        self._registry = registry
        self._batch_readers: dict[tuple[int, pa.Schema], AvroRecord | None] = {}

    @classmethod
    def of_file(cls, path: str) -> AvroReader:
        """Return the decoder of values that all have the schema in a file.

        Raises:
            InputError: The file can't be read, or does not contain an Avro schema of type record.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            return cls(parse_schemas([text]), None)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".")
            message = f"`avro_schema: {path}` can't be read: {reason}."
            hint = "Name a file with an Avro schema of type record that refers to no other file."
            raise InputError(message, hint, field="avro_schema", file=path) from None

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Decode one value into the fields of its Avro record, by name, as Python's types.

        Raises:
            BadValue: The bytes do not match the schema or some are left over, there is no schema id
                in front, or the registry does not have the schema or one of type record.
            InputError: The registry refuses the login or the request.
            UnavailableError: The registry does not answer.
        """
        schema, data = self._schema, value
        if self._registry is not None:
            schema_id, data = unframe(value)
            schema = _registered(self._registry, schema_id)
        record: Mapping[str, Any] = _decoded(data, schema)
        return record

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
        """Decode many values at once into structs of the columns, in the order of the values.

        A value becomes null where only :meth:`fields` can decode it or raise its error: an unusual
        or bad value, a schema that batches don't support, or one that the registry does not return.
        Raises nothing itself.
        """
        batch = Batch(values)
        ids = np.zeros(len(batch), np.int64) if self._registry is None else read_ids(batch)
        ids = np.where(batch.is_sure, ids, _NO_SCHEMA)
        indexes, parts = [], []
        for schema_id in np.unique(ids).tolist():
            (chosen_indexes,) = np.nonzero(ids == schema_id)
            reader = self._batch_reader(schema_id, columns)
            if reader is None:
                part = pa.nulls(len(chosen_indexes), pa.struct(columns))
            else:
                part = reader.rows(batch.take(chosen_indexes), columns)
            indexes.append(chosen_indexes)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return pa.nulls(0, pa.struct(columns))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(indexes))))

    def _batch_reader(self, schema_id: int, columns: pa.Schema) -> AvroRecord | None:
        """Return the batch decoder of a schema; None if its values must be decoded one by one."""
        if schema_id == _NO_SCHEMA:
            return None
        key = (schema_id, columns)
        if key not in self._batch_readers:
            schema = self._schema
            if self._registry is not None:
                try:
                    schema = _registered(self._registry, schema_id)
                except (BadValue, InputError, UnavailableError):
                    # Raised again, with its place, when the value is decoded on its own.
                    return None
            self._batch_readers[key] = batch_reader(schema, columns)
        return self._batch_readers[key]


def read_framed(data: bytes, registry: Registry) -> Any:
    """Decode Avro of any type with a schema id in front, such as the key of a record.

    Returns the value as Python's types.

    Raises:
        BadValue: The bytes do not match the schema, or the registry does not have it.
        InputError: The registry refuses the login or the request.
        UnavailableError: The registry does not answer.
    """
    schema_id, unframed = unframe(data)
    return _decoded(unframed, _registered(registry, schema_id, is_record=False))


def _decoded(data: bytes, schema: Any) -> Any:
    """Decode Avro that a schema was used to write.

    Raises:
        BadValue: The bytes do not match the schema.
    """
    stream = BytesIO(data)
    try:
        value = fastavro.schemaless_reader(stream, schema)
    # On bytes that are not Avro, fastavro raises errors of many types.
    except Exception as error:
        reason = f"the value does not match its Avro schema: {type(error).__name__}: {error}"
        raise BadValue(reason) from None
    if unread := len(data) - stream.tell():
        reason = f"the value does not match its Avro schema: {unread} bytes are left over"
        raise BadValue(reason)
    return value


@cache
def _registered(registry: Registry, schema_id: int, *, is_record: bool = True) -> Any:
    """Return the parsed schema of an id in a registry; cached for the life of the process.

    Raises:
        BadValue: The registry does not have it, or it is not a valid Avro schema, or not that of a
            record although one is needed.
        InputError: The registry refuses the login or the request.
        UnavailableError: The registry does not answer.
    """
    texts = schema_texts(registry, schema_id)
    try:
        return parse_schemas(texts, is_record=is_record)
    except ValueError as error:
        reason = f"schema {schema_id} of the registry can't be used: {error}"
        raise BadValue(reason) from None


def parse_schemas(texts: Sequence[str], *, expand: bool = False, is_record: bool = True) -> Any:
    """Parse Avro schemas that refer to each other, and return the last one.

    None without texts, if it need not be a record's.

    Args:
        texts: The schemas as JSON, each after those that it refers to.
        expand: Whether a named type is replaced by its definition, for code that inspects the
            schema.
        is_record: Whether it has to be a record's.

    Raises:
        ValueError: One is not a valid Avro schema, or the last one is not of type record although
            it has to be.
    """
    named: dict[str, Any] = {}
    schema: Any = None
    for text in texts:
        try:
            schema = fastavro.parse_schema(
                normalized_schema(json.loads(text)), named_schemas=named, expand=expand
            )
        except (fastavro.schema.SchemaParseException, KeyError) as error:
            message = f"it is not a valid Avro schema ({type(error).__name__}: {error})"
            raise ValueError(message) from None
    if is_record and (not isinstance(schema, dict) or schema.get("type") != "record"):
        kind = schema.get("type") if isinstance(schema, dict) else schema
        message = f"it is a schema of type {kind}, not of type record"
        raise ValueError(message)
    return schema
