"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from sources.formats.lines import OnBad, check_digits, check_text, read_lines, refuse
from sources.formats.regions import Region, records

_BLANK = b" \t\r\n"
_OPEN, _CLOSE, _LINE_END, _RETURN = b"{}\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonLines:
    """See :class:`sources.formats.base.Format`."""

    title = "JSON lines"
    splits = True

    def columns(self, _: pa.NativeFile) -> None:
        """JSON does not carry its types."""

    def rows(self, _: pa.NativeFile) -> None:
        """Only counting the lines would tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema, bad: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """Fields that are no column are ignored; a missing one is null."""
        span = records(file, region, b"\n")
        return read_lines(region.path, file, span, partial(_parse, columns=columns), bad)


def _parse(block: bytes, columns: pa.Schema) -> pa.Table:
    lines = _count_objects(block.removeprefix(_BYTE_ORDER_MARK))
    if not lines:
        return columns.empty_table()
    # Arrow takes days since 1970 for dates, and no text.
    inside = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_date(field.type) else field
            for field in columns
        ]
    )
    options = pa_json.ParseOptions(explicit_schema=inside, unexpected_field_behavior="ignore")
    whole = pa_json.ReadOptions(block_size=len(block), use_threads=False)
    table = pa_json.read_json(pa.BufferReader(block), whole, options)
    if len(table) != lines:
        message = "it is more than one JSON object"
        raise pa.ArrowInvalid(message)
    check_digits(table)
    return table.select(columns.names).cast(columns)


def _count_objects(block: bytes) -> int:
    """How many lines there are but blank ones; each begins and ends as an object does.

    Arrow itself joins lines to objects, and crashes if ``null`` is in the first one.
    """
    check_text(block)
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data[:-1] == _LINE_END)
    if block.startswith(b"{") and block[-3:].rstrip(_BLANK).endswith(b"}"):
        before = np.where(data[ends - 1] == _RETURN, data[ends - 2], data[ends - 1])
        if (before == _CLOSE).all() and (data[ends + 1] == _OPEN).all():
            return len(ends) + 1
    lines = [line for line in (each.strip(_BLANK) for each in block.split(b"\n")) if line]
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        message = "it is no JSON object"
        raise pa.ArrowInvalid(message)
    return len(lines)
