"""Reader of Avro object container files: blocks of a byte region, codecs, columns, Julian dates.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from hybrid_extensions.avro.file_types import arrow_type, without_logical_types
from sources.common.optional import needs_extra
from sources.common.schema import normalize_schema
from sources.errors import InputError
from sources.formats.arrow_columns import in_columns
from sources.formats.file_regions import Region, record_bounds
from sources.formats.julian_calendar import gregorian
from sources.formats.lines import OnBad, refuse
from sources.formats.row_check import RowCheck

with needs_extra("avro", "Avro"):
    import fastavro

    from hybrid_extensions.avro.empty_decimals import refuse_empty_decimals

refuse_empty_decimals()
_BATCH_ROWS = 20_000
_HEADER_BYTES = 1 << 16
_MAGIC = b"Obj\x01"
# https://avro.apache.org/docs/1.12.0/specification/#object-container-files
_FILE_HEADER = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}


class _Header(NamedTuple):
    """Header of an Avro file: its schema as JSON, codec, sync marker, and number of bytes.

    Last, its other metadata.
    """

    schema: Any
    codec: str
    sync: bytes
    length: int
    marks: dict[bytes, bytes]


@dataclass(frozen=True)
class Avro:
    """Reader of Avro object container files; large ones are read in regions.

    Implements :class:`sources.formats.base.Format`. The columns are those of the file's own schema.

    Attributes:
        wanted: Names of the columns to consider; None for all columns of a file.
    """

    wanted: Collection[str] | None = None

    title = "Avro"
    splits = True
    checks = False

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """Return the columns of an Avro file's own schema, in the types that Spark has.

        Types that are still open stay as they are (null throughout, or a decimal of too many
        digits).

        Raises:
            InputError: Spark has no type for a column among ``wanted``; names the column.
            pyarrow.ArrowInvalid: The file is damaged, or its schema is not of type record.
        """
        return normalize_schema(_stored(_header(file), self.wanted), may_be_open=True)

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: an Avro file does not record its number of rows as a whole."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        _: OnBad = refuse,
        __: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the Avro blocks that begin in a byte region of a file.

        In batches of at most 20,000 rows with exactly ``columns``; a column that the file lacks is
        null. Bad rows are not passed to a handler, as a block is readable as a whole or not at all;
        the check is ignored.

        Raises:
            pyarrow.ArrowInvalid: The file is damaged, its schema is not of type record, or a value
                does not fit its column.
            InputError: One of ``columns`` has a type in the file that is not read, or values of
                the Julian calendar; names it.
        """
        header = _header(file)
        low, high = record_bounds(file, region, header.sync, header.length)
        if low >= high:
            return
        stored = _stored(header, columns.names)
        stream = _HeaderAndBlocks(_plain(header), file.get_stream(low, high - low))
        rows = _decoded(stream)
        while batch := list(islice(rows, _BATCH_ROWS)):
            values = {each.name: partial(_values, batch, each) for each in stored}
            yield gregorian(in_columns(len(batch), values, columns), header.marks, "avro")


def _values(rows: list[dict[str, Any]], column: pa.Field) -> pa.Array:
    return pa.array([row[column.name] for row in rows], column.type)


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


def _header(file: pa.NativeFile) -> _Header:
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
            found: Any = fastavro.schemaless_reader(stream, _FILE_HEADER)
            schema = json.loads(found["meta"]["avro.schema"])
        # On bytes that are not Avro, fastavro raises errors of many types.
        except Exception as error:
            if not block:
                raise _damaged(error) from None
            continue
        meta = found["meta"]
        codec = meta.get("avro.codec", b"null").decode()
        marks = {name.encode(): value for name, value in meta.items()}
        return _Header(schema, codec, found["sync"], stream.tell(), marks)


def _decoded(stream: Any) -> Iterator[Any]:
    """Yield the rows of a file as fastavro decodes them.

    Raises:
        ArrowInvalid: A block is damaged, or is compressed by a codec that is not installed.
    """
    try:
        yield from fastavro.reader(stream)
    except Exception as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    )


def _stored(header: _Header, wanted: Collection[str] | None) -> pa.Schema:
    """Return the columns of a file's schema, in the types in which their values are stored.

    Args:
        header: The file's header.
        wanted: Columns to return; None for all.

    Raises:
        InputError: A column is of a type that is not read; names the column.
        ArrowInvalid: The schema is not of type record, so that its values are not rows.
    """
    try:
        schema: Any = fastavro.schema.expand_schema(header.schema)
    except Exception as error:
        raise _damaged(error) from None
    if not isinstance(schema, dict) or schema["type"] != "record":
        of_several = "union" if isinstance(schema, list) else schema
        kind = schema["type"] if isinstance(schema, dict) else of_several
        message = f"its schema is of type {kind}, not of type record, so it contains no rows"
        raise pa.ArrowInvalid(message)
    # Spark does not tell names in another case from those: whoever compares them refuses these.
    folded = None if wanted is None else {name.lower() for name in wanted}
    fields = []
    for field in schema["fields"]:
        name = field["name"]
        if folded is not None and name.lower() not in folded:
            continue
        try:
            fields.append((name, arrow_type(field["type"])))
        except InputError as error:
            message = f"Column `{name}`: {error.message}"
            raise InputError(message, error.hint, **{**error.fields, "column": name}) from None
    return pa.schema(fields)


def _plain(header: _Header) -> bytes:
    """Return a header with a schema by which values are read as they are stored."""
    schema, out = without_logical_types(header.schema), io.BytesIO()
    try:
        fastavro.writer(out, schema, [], codec=header.codec, sync_marker=header.sync)
    except ValueError as error:
        raise _damaged(error) from None
    return out.getvalue()
