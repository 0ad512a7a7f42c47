"""Avro's object container files (https://avro.apache.org/docs/1.12.0/specification/)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from sources.common.optional import needs_extra
from sources.common.schema import TIMESTAMP
from sources.errors import InputError
from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region, records

with needs_extra("avro", "Avro"):
    import fastavro

_BATCH_ROWS = 20_000
_HEADER_BYTES = 1 << 16
_SYNC_BYTES = 16
_MAGIC = b"Obj\x01"
_PRIMITIVE = {
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
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "uuid": pa.string(),
}


class Avro:
    """See :class:`sources.formats.base.Format`."""

    title = "Avro"
    splits = True

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """From the schema that the file was written with."""
        header = _header(file)
        schema = fastavro.reader(io.BytesIO(header)).writer_schema
        assert isinstance(schema, dict)
        return pa.schema([(field["name"], arrow_type(field["type"])) for field in schema["fields"]])

    def rows(self, _: pa.NativeFile) -> None:
        """Only the blocks tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema, _: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """Blocks end with the file's own 16 bytes, which are looked for as borders."""
        header = _header(file)
        low, high = records(file, region, header[-_SYNC_BYTES:], len(header))
        if low >= high:
            return
        stream = _Joined(header, file.get_stream(low, high - low))
        try:
            rows = iter(fastavro.reader(stream))
            while batch := list(islice(rows, _BATCH_ROWS)):
                yield pa.RecordBatch.from_pylist(
                    [{name: row.get(name) for name in columns.names} for row in batch], columns
                )
        except (EOFError, ValueError, KeyError, IndexError) as error:
            raise pa.ArrowInvalid(str(error) or type(error).__name__) from None


class _Joined(io.RawIOBase):
    """The header, then a stream."""

    def __init__(self, header: bytes, stream: pa.NativeFile) -> None:
        self._header = io.BytesIO(header)
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        found = self._header.read(size)
        missing = size - len(found)
        if missing:
            found += self._stream.read(missing)
        return found


def _header(file: pa.NativeFile) -> bytes:
    """All before the first block."""
    file.seek(0)
    start = b""
    while True:
        block: bytes = file.read(_HEADER_BYTES)
        start += block
        if not start.startswith(_MAGIC):
            message = "it does not begin as Avro files do"
            raise pa.ArrowInvalid(message)
        stream = io.BytesIO(start)
        try:
            fastavro.reader(stream)
        except (EOFError, IndexError, ValueError) as error:
            if not block:
                raise pa.ArrowInvalid(str(error)) from None
            continue
        return start[: stream.tell()]


def arrow_type(schema: Any) -> pa.DataType:
    """The Arrow type of an Avro schema; a union with null is the other type.

    Raises:
        InputError: Spark has no such type.
    """
    if isinstance(schema, list):
        others = [part for part in schema if part != "null"]
        if len(others) == 1:
            return arrow_type(others[0])
    elif isinstance(schema, str) and schema in _PRIMITIVE:
        return _PRIMITIVE[schema]
    elif isinstance(schema, dict):
        kind, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind == "array":
            return pa.list_(arrow_type(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), arrow_type(schema["values"]))
        if kind == "record":
            return pa.struct(
                [(part["name"], arrow_type(part["type"])) for part in schema["fields"]]
            )
        return arrow_type(kind)
    message = f"Spark has no type for Avro's `{schema}`."
    raise InputError(message, "Write the column in a type that Spark reads.")
