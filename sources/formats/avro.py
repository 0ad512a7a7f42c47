"""Avro object container files (https://avro.apache.org/docs/1.12.0/specification/)."""

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
from sources.formats.regions import Region, record_bounds
from sources.formats.row_check import RowCheck

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
    """Reader of Avro object container files, of which large ones are read in regions.

    Implements :class:`sources.formats.base.Format`. The columns are those of the file's own schema.
    """

    title = "Avro"
    splits = True
    checks = False

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """Return the columns of an Avro file's own schema, in the types that Spark has.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowInvalid: The file is damaged, or its schema is not of type record.
        """
        fields = _record_fields(fastavro.reader(io.BytesIO(_header(file))))
        return pa.schema([(field["name"], arrow_type(field["type"])) for field in fields])

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: only the blocks of an Avro file contain their numbers of rows."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        _: OnBad = refuse,
        __: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of the Avro blocks that begin in a region of a file.

        Blocks end with a 16-byte sync marker, which each file has of its own. Bad rows are not
        handed to a handler: a block is readable as a whole or not at all.

        Yields:
            Batches of at most 20,000 rows with exactly ``columns``; a column that the file lacks is
            null.

        Raises:
            pyarrow.ArrowInvalid: The file is damaged, or its schema is not of type record.
        """
        header = _header(file)
        low, high = record_bounds(file, region, header[-_SYNC_BYTES:], len(header))
        if low >= high:
            return
        stream = _HeaderAndBlocks(header, file.get_stream(low, high - low))
        try:
            reader = fastavro.reader(stream)
            _record_fields(reader)
            rows = iter(reader)
            while batch := list(islice(rows, _BATCH_ROWS)):
                yield pa.RecordBatch.from_pylist(
                    [{name: row.get(name) for name in columns.names} for row in batch], columns
                )
        except (EOFError, ValueError, KeyError, IndexError) as error:
            raise pa.ArrowInvalid(str(error) or type(error).__name__) from None


class _HeaderAndBlocks(io.RawIOBase):
    """Stream of an Avro file's header and then of a region's blocks, for fastavro to read."""

    def __init__(self, header: bytes, stream: pa.NativeFile) -> None:
        self._header = io.BytesIO(header)
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        content = self._header.read(size)
        missing = size - len(content)
        if missing:
            content += self._stream.read(missing)
        return content


def _header(file: pa.NativeFile) -> bytes:
    """Read an Avro file up to its first block: magic bytes, metadata and sync marker.

    Raises:
        ArrowInvalid: It is not the header of an Avro file.
    """
    file.seek(0)
    start = b""
    while True:
        block: bytes = file.read(_HEADER_BYTES)
        start += block
        if not start.startswith(_MAGIC):
            message = (
                f"it begins with {start[:4]!r}, not with the magic bytes of Avro files, {_MAGIC!r}"
            )
            raise pa.ArrowInvalid(message)
        stream = io.BytesIO(start)
        try:
            fastavro.reader(stream)
        except (EOFError, IndexError, ValueError) as error:
            if not block:
                raise pa.ArrowInvalid(str(error)) from None
            continue
        return start[: stream.tell()]


def _record_fields(reader: Any) -> list[dict[str, Any]]:
    """Return the fields of an Avro file's schema, which has to be of type record.

    Raises:
        ArrowInvalid: The schema is not of type record, so that its values are not rows.
    """
    schema = reader.writer_schema
    if not isinstance(schema, dict) or schema["type"] != "record":
        kind = schema["type"] if isinstance(schema, dict) else schema
        message = f"its schema is of type {kind}, not of type record, so it contains no rows"
        raise pa.ArrowInvalid(message)
    fields: list[dict[str, Any]] = schema["fields"]
    return fields


def arrow_type(schema: Any) -> pa.DataType:
    """Return the Arrow type of an Avro schema, for the columns of Avro files.

    A union of one type and null has that type, since all columns may be null.

    Args:
        schema: The schema as :mod:`fastavro` parses it: a name, a definition or a union.

    Raises:
        InputError: Spark has no such type: a union of several types, ``null`` alone, or a
            reference to a type by its name.
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
    hint = (
        "Write the files again without this column, or with a type that has one in Spark: a "
        "primitive type, enum, fixed, record, array, map, or a union of one of them with null."
    )
    raise InputError(message, hint, value=str(schema))
