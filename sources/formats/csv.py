"""Comma-separated values (RFC 4180), and what else separates them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pydantic import Field

from sources.common.fields import Declared
from sources.errors import InputError
from sources.formats.lines import OnBad, check_digits, check_text, read_lines, refuse
from sources.formats.regions import Region, border, records, skip_blank

_BLOCK_BYTES = 16 << 20
_LINE_END = ord("\n")
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"


class CsvOptions(Declared):
    """How the files are written.

    Attributes:
        delimiter: Between two values.
        header: Whether the first line names the columns; else they are those of ``schema``, in
            its order.
        quote: Around values that hold a delimiter.
        null: Texts that stand for no value; others are values.
        multiline: Whether quoted values may hold line ends; such files can't be read in regions.

    """

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    null: list[str] = Field(default_factory=lambda: [""])
    multiline: bool = False


class Csv:
    """See :class:`sources.formats.base.Format`."""

    title = "CSV"

    def __init__(self, options: CsvOptions) -> None:
        self._options = options
        self.splits = not options.multiline

    def columns(self, _: pa.NativeFile) -> None:
        """CSV does not carry its types."""

    def rows(self, _: pa.NativeFile) -> None:
        """Only counting the lines would tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema, bad: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the file that are not asked for are ignored; a missing one is refused."""
        names, begin = self._names(file, region, columns)
        low, high = records(file, region, b"\n", begin)
        if not self._options.multiline:
            parse = partial(self._parse, names=names, columns=columns)
            yield from read_lines(region.path, file, (low, high), parse, bad)
            return
        # Arrow takes nothing at all for an error.
        if skip_blank(file, low, high) >= high:
            return
        read = pa_csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=names)
        stream = file.get_stream(low, high - low)
        for batch in pa_csv.open_csv(stream, read, self._parsing, self._converting(columns)):
            yield from _typed(pa.Table.from_batches([batch]), columns).to_batches()

    def _parse(self, block: bytes, names: list[str], columns: pa.Schema) -> pa.Table:
        """See :data:`sources.formats.lines.Parse`."""
        check_text(block)
        lines = int(np.count_nonzero(np.frombuffer(block, np.uint8)[:-1] == _LINE_END)) + 1
        # A carriage return alone would end a row too.
        if lines > 1 and b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            message = "a carriage return is in it"
            raise pa.ArrowInvalid(message)
        if block[:1] in b"\r\n" and not block.strip(b"\r\n"):
            return columns.empty_table()
        # Arrow lets a quoted value go on behind a line, and ends it where a block ends.
        if not self._is_closed(_last_line(block)):
            message = "a quoted value has no end in it"
            raise pa.ArrowInvalid(message)
        read = pa_csv.ReadOptions(block_size=len(block), column_names=names, use_threads=False)
        convert = self._converting(columns)
        table = pa_csv.read_csv(pa.BufferReader(block), read, self._parsing, convert)
        if len(table) != lines:
            lines = sum(1 for line in block.split(b"\n") if line.strip(b"\r"))
        if len(table) != lines:
            message = f"{lines} lines make {len(table)} rows"
            raise pa.ArrowInvalid(message)
        check_digits(table)
        return _typed(table, columns)

    def _is_closed(self, line: bytes) -> bool:
        """Whether what follows a line is not part of it."""
        if self._options.quote.encode() not in line:
            return True
        read = pa_csv.ReadOptions(autogenerate_column_names=True)
        twice = pa.BufferReader(line + b"\n" + line)
        return len(pa_csv.read_csv(twice, read, self._parsing)) == 2

    @property
    def _parsing(self) -> pa_csv.ParseOptions:
        return pa_csv.ParseOptions(
            delimiter=self._options.delimiter,
            quote_char=self._options.quote,
            newlines_in_values=self._options.multiline,
        )

    def _converting(self, columns: pa.Schema) -> pa_csv.ConvertOptions:
        # Instants are read as text: Arrow refuses those without a zone, which mean UTC here.
        kinds = {
            field.name: pa.string() if pa.types.is_timestamp(field.type) else field.type
            for field in columns
        }
        return pa_csv.ConvertOptions(
            column_types=kinds,
            include_columns=columns.names,
            null_values=self._options.null,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def _names(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema
    ) -> tuple[list[str], int]:
        """The columns of the file, and where its first row begins."""
        if not self._options.header:
            return columns.names, 0
        begin = border(file, 1, b"\n", region.size)
        file.seek(0)
        line = file.read(min(begin, _BLOCK_BYTES))
        if not line.strip():
            return columns.names, begin
        parse = pa_csv.ParseOptions(
            delimiter=self._options.delimiter, quote_char=self._options.quote
        )
        names: list[str] = pa_csv.read_csv(
            pa.BufferReader(line.removeprefix(b"\xef\xbb\xbf") + b"\n"), parse_options=parse
        ).column_names
        if absent := [name for name in columns.names if name not in names]:
            message = f"{region.path} has no column {', '.join(absent)}."
            hint = (
                f"Its first line names {', '.join(names)}; without a header, say `header: false`."
            )
            raise InputError(message, hint)
        return names, begin


def _last_line(block: bytes) -> bytes:
    """The last line that is not empty."""
    end = len(block)
    while not (line := block[block.rfind(b"\n", 0, end - 1) + 1 : end].strip(b"\r\n")):
        end = block.rfind(b"\n", 0, end - 1) + 1
    return line


def _typed(table: pa.Table, columns: pa.Schema) -> pa.Table:
    arrays = [_instants(table[field.name], field) for field in columns]
    return pa.table(arrays, schema=columns)


def _instants(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(field.type):
        return values
    zoned = pc.match_substring_regex(values, _ZONE)
    marked = pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", ""))
    try:
        return marked.cast(field.type)
    except pa.ArrowInvalid as error:
        # The rest is advice to people who write code.
        message = f"`{field.name}`: {str(error).partition(': expected')[0]}"
        raise pa.ArrowInvalid(message) from None
