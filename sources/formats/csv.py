"""CSV files (RFC 4180) and others with a separator, read by Arrow."""

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
from sources.formats.lines import OnBad, check_precision, check_utf8, read_lines, refuse
from sources.formats.regions import Region, next_record_start, record_bounds, skip_blank
from sources.formats.row_check import RowCheck

_BLOCK_BYTES = 16 << 20
_LINE_END = ord("\n")
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"


class CsvOptions(Declared):
    """Dialect of CSV files.

    Attributes:
        delimiter: Character between two values.
        header: Whether the first line contains the column names; if not, the columns are those of
            ``schema``, in its order.
        quote: Character around values that contain a delimiter.
        null: Texts that mean null; quoted, they are values.
        multiline: Whether quoted values may contain line ends; such files can't be read in regions.
    """

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    null: list[str] = Field(default_factory=lambda: [""])
    multiline: bool = False

    def contract(self) -> dict[str, object]:
        """Return the options that must not change under a checkpoint, as JSON has them.

        They decide what a row means. The digests that states hold have the first five; an option
        that came later is here only where it is declared.
        """
        first = {"delimiter", "header", "quote", "null", "multiline"}
        later = self.model_dump(mode="json", exclude=first, exclude_defaults=True)
        return {**self.model_dump(mode="json", include=first), **later}


class Csv:
    """Reader of CSV files; large ones are read in regions unless values may contain line ends.

    Implements :class:`sources.formats.base.Format`. The columns are those that the source declares.

    Args:
        options: Delimiter, quote, header and null texts of the files.
    """

    title = "CSV"

    def __init__(self, options: CsvOptions) -> None:
        self._options = options
        self.splits = not options.multiline
        self.checks = not options.multiline

    def columns(self, _: pa.NativeFile) -> None:
        """Return None: CSV files declare no types, so the source has to."""

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: the file does not contain its number of lines."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the CSV rows that begin in a region of a file; with ``multiline``, the whole file.

        Columns of the file that are not read are ignored. Timestamps without a zone are in UTC.

        Args:
            file: The file, decompressed.
            region: The region.
            columns: Exactly the columns to return.
            bad: Called with each bad row; not with ``multiline``, where any bad row raises.
            check: Check that each row has to pass; not used with ``multiline``.

        Yields:
            Batches in the order of the file.

        Raises:
            InputError: The header lacks a column, or ``bad`` refuses a row.
            pyarrow.ArrowInvalid: With ``multiline``: a row can't be parsed, or does not fit its
                columns.
        """
        names, first_row = self._header(file, region, columns)
        low, high = record_bounds(file, region, b"\n", first_row)
        if not self._options.multiline:
            parse = partial(self._parse, names=names, columns=columns)
            yield from read_lines(region.path, file, (low, high), parse, bad, check)
            return
        # Arrow refuses an input without any row.
        if skip_blank(file, low, high) >= high:
            return
        read = pa_csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=names)
        stream = file.get_stream(low, high - low)
        for batch in pa_csv.open_csv(stream, read, self._parsing, self._converting(columns)):
            yield from _typed(pa.Table.from_batches([batch]), columns).to_batches()

    def _parse(self, block: bytes, names: list[str], columns: pa.Schema) -> pa.Table:
        """Parse a block of lines into one row per line (:data:`sources.formats.lines.Parse`)."""
        check_utf8(block)
        lines = int(np.count_nonzero(np.frombuffer(block, np.uint8)[:-1] == _LINE_END)) + 1
        # Arrow would end a row at a carriage return without a line feed, too.
        if lines > 1 and b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            message = "it contains a carriage return without a line feed"
            raise pa.ArrowInvalid(message)
        if block[:1] in b"\r\n" and not block.strip(b"\r\n"):
            return columns.empty_table()
        # Arrow continues an open quoted value on the next line, and closes it at a block's end.
        if not self._is_closed(_last_line(block)):
            message = "a quoted value has no closing quote in it"
            raise pa.ArrowInvalid(message)
        read = pa_csv.ReadOptions(block_size=len(block), column_names=names, use_threads=False)
        convert = self._converting(columns)
        table = pa_csv.read_csv(pa.BufferReader(block), read, self._parsing, convert)
        if len(table) != lines:
            lines = sum(1 for line in block.split(b"\n") if line.strip(b"\r"))
        if len(table) != lines:
            message = f"it has {len(table)} rows in {lines} lines, not one row in each line"
            raise pa.ArrowInvalid(message)
        check_precision(table)
        return _typed(table, columns)

    def _is_closed(self, line: bytes) -> bool:
        """Return whether a row of CSV ends with this line, so that no quoted value is left open."""
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
        # Timestamps are read as text: Arrow refuses those without a zone, which mean UTC here.
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

    def _header(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema
    ) -> tuple[list[str], int]:
        """Return the column names in a CSV file's header, and the offset of its first row.

        Raises:
            InputError: The header lacks a column.
        """
        if not self._options.header:
            return columns.names, 0
        begin = next_record_start(file, 1, b"\n", region.size)
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
        if missing := [name for name in columns.names if name not in names]:
            message = (
                f"{region.path} has no column {', '.join(missing)}: its first line names the "
                f"columns {', '.join(names)}."
            )
            hint = (
                "Remove the column from the source's `schema`, or add it to the file. If the first "
                "line is not a header, declare `csv: {header: false}`; if another character "
                "separates the columns, declare it in `csv: {delimiter: …}`."
            )
            raise InputError(message, hint, file=region.path, column=missing[0])
        return names, begin


def _last_line(block: bytes) -> bytes:
    """Return the last line of a block that is not empty."""
    end = len(block)
    while not (line := block[block.rfind(b"\n", 0, end - 1) + 1 : end].strip(b"\r\n")):
        end = block.rfind(b"\n", 0, end - 1) + 1
    return line


def _typed(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return a table that was parsed from CSV with its columns in declared types and order."""
    arrays = [_timestamps(table[field.name], field) for field in columns]
    return pa.table(arrays, schema=columns)


def _timestamps(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Cast texts to timestamps, in UTC if they have no zone; leave other types as they are.

    Raises:
        ArrowInvalid: A text is not a timestamp.
    """
    if not pa.types.is_timestamp(field.type):
        return values
    zoned = pc.match_substring_regex(values, _ZONE)
    marked = pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", ""))
    try:
        return marked.cast(field.type)
    except pa.ArrowInvalid as error:
        # What follows is advice to users of Arrow's API.
        message = f"`{field.name}`: {str(error).partition(': expected')[0]}"
        raise pa.ArrowInvalid(message) from None
