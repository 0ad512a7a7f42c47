"""Reader of JSON lines (https://jsonlines.org): one object per line, which Arrow parses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from hybrid_extensions.text_files.json.numbers import (
    check_decimals,
    check_floats,
    check_words,
    has_infinite_float,
    has_integer_zero,
    with_doubles,
)
from hybrid_extensions.text_files.json.objects import SHALLOW_BYTES, check_depth, parse_objects
from hybrid_extensions.text_files.line_reader import read_lines
from hybrid_extensions.text_files.text_checks import require_text
from sources.formats.file_regions import Region, record_bounds
from sources.formats.lines import (
    BYTE_ORDER_MARK,
    BadRow,
    OnBad,
    check_precision,
    check_utf8,
    refuse,
)
from sources.formats.row_check import RowCheck

_BLANK = b" \t\r\n"
_OPEN, _CLOSE, _LINE_END, _RETURN = b"{}\n\r"
# Of a block that Arrow's parser refuses: up to this size Python's reads it.
_FEW_BYTES = 256 << 10


class JsonLines:
    """Reader of files with one JSON object per line; large ones are read in regions.

    Implements :class:`sources.formats.base.Format`. The columns are those that the source declares.
    """

    title = "JSON lines"
    splits = True
    checks = True

    def columns(self, _: pa.NativeFile) -> None:
        """Return None: JSON lines declare no types, so that the source has to declare columns."""

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: a file of JSON lines does not record its number of lines."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the JSON objects of the lines that begin in a byte region of a file, as batches.

        In the order of the file. Members that are not columns are ignored; a missing one is null.

        Args:
            file: The file, decompressed.
            region: The byte range.
            columns: Exactly the columns to return.
            bad: Called with each line that is not one JSON object, or does not fit the columns.
            check: Check that each row has to pass.

        Raises:
            InputError: The file is compressed or in another encoding; or, while the batches are
                read, ``bad`` refuses a row.
        """

        def refuse_other_files(row: BadRow) -> None:
            # Only then, as a look at each file would be a further request to its store.
            if not row.offset:
                require_text(file, region.path, is_utf8=True, encoding="Convert the file to UTF-8")
            bad(row)

        span, parse = record_bounds(file, region, b"\n"), partial(_parse, columns=columns)
        return read_lines(region.path, file, span, parse, refuse_other_files, check)


def _parse(block: bytes, columns: pa.Schema) -> pa.Table:
    """Parse a block of lines into one row per line (:data:`..line_reader.Parse`)."""
    check_words(block)
    check_decimals(block, columns)
    if not all(map(_arrow_reads, columns.types)):
        return parse_objects(block, columns)
    try:
        return _by_arrow(block, columns)
    except pa.ArrowInvalid:
        # It is halved meanwhile: Arrow's reader is ten times as fast.
        if len(block) > _FEW_BYTES and block.count(b"\n", 0, -1):
            raise
        return parse_objects(block, columns)


def _arrow_reads(kind: pa.DataType) -> bool:
    """Return whether Arrow's reader has values of a type as they are in JSON."""
    if pa.types.is_map(kind) or pa.types.is_binary(kind):
        return False
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return all(_arrow_reads(each) and not pa.types.is_date(each) for each in inner)


def _by_arrow(block: bytes, columns: pa.Schema) -> pa.Table:
    lines = _count_objects(block.removeprefix(BYTE_ORDER_MARK))
    if not lines:
        return columns.empty_table()
    # Arrow's JSON reader accepts dates as days since 1970 only, not as text.
    inside = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_date(field.type) else field
            for field in columns
        ]
    )
    table = _as(block, inside)
    if len(table) != lines:
        message = "it is not exactly one JSON object"
        raise pa.ArrowInvalid(message)
    check_precision(table)
    if has_integer_zero(table, block):
        return parse_objects(block, columns)
    if has_infinite_float(table):
        check_floats(table, _as(block, pa.schema(with_doubles(pa.struct(inside)))))
    return table.cast(columns)


def _as(block: bytes, columns: pa.Schema) -> pa.Table:
    """Parse members by Arrow in these types."""
    options = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    whole = pa_json.ReadOptions(block_size=len(block), use_threads=False)
    return pa_json.read_json(pa.BufferReader(block), whole, options).select(columns.names)


def _count_objects(block: bytes) -> int:
    """Count the lines that are not blank; each has to begin and end as a JSON object does.

    Arrow's reader itself would join lines to objects, and crashes if the first one is ``null``.

    Raises:
        ArrowInvalid: A line is not UTF-8, or does not begin and end as an object does.
    """
    check_utf8(block)
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data[:-1] == _LINE_END)
    if np.diff(ends, prepend=0, append=len(data)).max() > SHALLOW_BYTES:
        for line in block.split(b"\n"):
            check_depth(line)
    if block.startswith(b"{") and block[-3:].rstrip(_BLANK).endswith(b"}"):
        before = np.where(data[ends - 1] == _RETURN, data[ends - 2], data[ends - 1])
        if (before == _CLOSE).all() and (data[ends + 1] == _OPEN).all():
            return len(ends) + 1
    lines = [line for line in (each.strip(_BLANK) for each in block.split(b"\n")) if line]
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        message = "it is not a JSON object"
        raise pa.ArrowInvalid(message)
    return len(lines)
