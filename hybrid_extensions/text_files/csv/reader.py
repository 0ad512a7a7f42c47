"""Reader of CSV files: header, encoding, nulls in quotes, values of several lines, bad rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.csv as pa_csv

from hybrid_extensions.text_files.csv.records import CsvRecords
from hybrid_extensions.text_files.csv.values_from_text import (
    check_infinity,
    convert_values,
    has_infinity,
    is_text,
    parsed_as,
)
from hybrid_extensions.text_files.line_reader import Parse, read_lines, reason_of
from hybrid_extensions.text_files.text_checks import require_text
from sources.errors import InputError
from sources.formats.compression import UNKNOWN_BYTES, StreamedFile
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region, record_bounds
from sources.formats.lines import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    BadRow,
    OnBad,
    check_utf8,
    refuse,
)
from sources.formats.row_check import RowCheck

_HEADER_BYTES = 1 << 16
# Longer rows are taken for a quote without an end.
_MOST_BYTES = 16 << 20
# Arrow counts columns from 0.
_COLUMN = re.compile(r"^In CSV column #(\d+)")
_OTHER_ENCODING = (
    "Declare its encoding, such as `csv: {encoding: utf-16}` (`utf-16-le` without a byte order "
    "mark)"
)


class Csv:
    """Reader of CSV files; large ones are read in regions unless values may contain line ends.

    Implements :class:`sources.formats.base.Format`. The columns are those that the source declares.

    Args:
        options: Dialect of the files.
    """

    title = "CSV"

    def __init__(self, options: CsvOptions) -> None:
        self._options = options
        self._records = CsvRecords(
            options.delimiter, options.quote, options.escape_character, multiline=options.multiline
        )
        self.splits = not options.multiline and options.is_utf8
        self.checks = not options.multiline

    def columns(self, _: pa.NativeFile) -> None:
        """Return None: CSV files declare no types, so that the source has to declare columns."""

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: a CSV file does not record its number of rows."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the CSV rows that begin in a byte region; with ``multiline``, of the whole file.

        Columns of the file that are not read are ignored. Timestamps without a zone are in UTC.

        Args:
            file: The file, decompressed.
            region: The byte range.
            columns: Exactly the columns to return.
            bad: Called with each bad row; not with ``multiline``, where any bad row raises.
            check: Check that each row has to pass; not used with ``multiline``.

        Raises:
            InputError: The header lacks a column, has it twice, or is not text; or ``bad`` refuses
                a row.
            pyarrow.ArrowInvalid: With ``multiline``: a row can't be parsed, or does not fit its
                columns; contains its offset.
            UnicodeDecodeError: The file is not text in its declared encoding.
        """
        if not region.offset:
            require_text(file, region.path, is_utf8=self._options.is_utf8, encoding=_OTHER_ENCODING)
        if not self._options.is_utf8:
            file, region = self._in_utf8(file, region)
        names, first_row = columns.names, 0
        if self._options.header:
            names, first_row = self._header(file, region.path, columns)
        low, high = record_bounds(file, region, b"\n", first_row)
        parse = partial(self._parse, names=names, columns=columns)
        if self._options.multiline:
            yield from self._read_records(file.get_stream(low, high - low), low, parse)
        else:
            yield from read_lines(region.path, file, (low, high), parse, bad, check)

    def _in_utf8(self, file: pa.NativeFile, region: Region) -> tuple[pa.NativeFile, Region]:
        """Return a file's text in UTF-8, and all of it as its region."""
        encoding, size = self._options.encoding, region.size

        def stream() -> pa.NativeFile:
            return pa.transcoding_input_stream(file.get_stream(0, size), encoding, "utf-8")

        return StreamedFile(stream), Region(region.path, 0, UNKNOWN_BYTES, UNKNOWN_BYTES)

    def _read_records(
        self, stream: pa.NativeFile, offset: int, parse: Parse
    ) -> Iterator[pa.RecordBatch]:
        """Read records that may have several lines.

        Args:
            stream: The records.
            offset: Offset of the stream's first byte in the file.
            parse: Parses whole records.

        Raises:
            ArrowInvalid: A record has no end, or does not fit its columns.
        """
        text, following = b"", stream.read(BLOCK_BYTES)
        while following:
            text += following
            following = stream.read(BLOCK_BYTES)
            # At the end a record that is malformed fails with the good ones before it: a sample of
            # the first rows finds it, too.
            end = self._records.whole(text) if following else len(text)
            if len(text) - end > _MOST_BYTES:
                raise self._bad_record(text[end:], offset + end, parse)
            yield from self._rows(text[:end], offset, parse)
            text, offset = text[end:], offset + end

    def _rows(self, text: bytes, offset: int, parse: Parse) -> Iterator[pa.RecordBatch]:
        try:
            yield from parse(text).to_batches()
        except pa.ArrowInvalid:
            raise self._bad_record(text, offset, parse) from None

    def _bad_record(self, text: bytes, offset: int, parse: Parse) -> pa.ArrowInvalid:
        """Return an error that names the first record that can't be parsed."""
        ends = self._records.ends(text)
        for low, high in pairwise([0, *ends, len(text)]):
            try:
                parse(text[low:high])
            except pa.ArrowInvalid as error:
                row = BadRow("", offset + low, text[low:high].rstrip(b"\r\n"), reason_of(error))
                return pa.ArrowInvalid(row.in_words.removeprefix(", "))
        return pa.ArrowInvalid(f"byte {offset}: the row is longer than {_MOST_BYTES >> 20} MiB")

    def _parse(self, block: bytes, names: list[str], columns: pa.Schema) -> pa.Table:
        """Parse whole records into a row for each (:data:`..line_reader.Parse`)."""
        check_utf8(block)
        text = block.removeprefix(BYTE_ORDER_MARK)
        if not text.strip(b"\r\n"):
            return columns.empty_table()
        text = self._records.for_arrow(text)
        try:
            return self._typed(text, names, columns)
        except pa.ArrowInvalid:
            # Only of texts and bytes is a quoted null a value: elsewhere it is null, as in Spark.
            texts = [field for field in columns if is_text(field.type)]
            others = [field for field in columns if field not in texts]
            parts = [self._typed(text, names, pa.schema(texts))] if texts else []
            parts.append(self._typed(text, names, pa.schema(others), quoted_nulls=True))
            found = {name: part[name] for part in parts for name in part.column_names}
            return pa.table([found[name] for name in columns.names], schema=columns)

    def _typed(
        self, text: bytes, names: list[str], columns: pa.Schema, *, quoted_nulls: bool = False
    ) -> pa.Table:
        """Parse columns; with ``quoted_nulls``, texts that mean null do so in quotes, too."""
        parse = partial(self._as, text, names, quoted_nulls=quoted_nulls)
        table = parse({each.name: parsed_as(each.type) for each in columns})
        if infinite := [name for name in columns.names if has_infinity(table[name])]:
            texts = parse(dict.fromkeys(infinite, pa.string()))
            for name in infinite:
                check_infinity(name, table[name], texts[name])
        return pa.table(
            [convert_values(table[each.name], each) for each in columns], schema=columns
        )

    def _as(
        self,
        text: bytes,
        names: list[str],
        kinds: Mapping[str, pa.DataType],
        *,
        quoted_nulls: bool = False,
    ) -> pa.Table:
        """Parse columns by Arrow in these types; an error names the column by its name."""
        options = self._options
        parse = pa_csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote,
            newlines_in_values=options.multiline,
        )
        convert = pa_csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=options.null,
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_nulls,
        )
        read = pa_csv.ReadOptions(block_size=len(text), column_names=names, use_threads=False)
        try:
            return pa_csv.read_csv(pa.BufferReader(text), read, parse, convert)
        except pa.ArrowInvalid as error:
            message = _COLUMN.sub(lambda found: f"`{names[int(found[1])]}`", str(error))
            raise pa.ArrowInvalid(message) from None

    def _header(self, file: pa.NativeFile, path: str, columns: pa.Schema) -> tuple[list[str], int]:
        """Return the column names in a CSV file's header, and the offset of its first row.

        Raises:
            InputError: The file is not text, or its header lacks a column or has it twice.
        """
        file.seek(0)
        text = b""
        while (read := file.read(_HEADER_BYTES)) and len(text) < _MOST_BYTES:
            text += read
            if head := self._first_record(text):
                text = head
                break
        first = text.removeprefix(BYTE_ORDER_MARK).strip(b"\r\n")
        if not first:
            return columns.names, len(text)
        try:
            check_utf8(first)
            names = [value.decode() for value in self._records.values(first)]
        except pa.ArrowInvalid as error:
            message = f"{path} has no header that can be read: {reason_of(error)}."
            hint = (
                "Correct the file's first line. If it is in another encoding, declare it, such as "
                "`csv: {encoding: latin-1}`; if it is not a header, declare `csv: {header: false}`."
            )
            raise InputError(message, hint, file=path) from None
        if missing := [name for name in columns.names if name not in names]:
            message = (
                f"{path} has no column {', '.join(missing)}: its first line names the "
                f"columns {', '.join(names)}."
            )
            hint = (
                "Remove the column from the source's `schema`, or add it to the file. Remove lines "
                "before the header, such as Excel's `sep=;`. If the first line is not a header, "
                "declare `csv: {header: false}`; if another character separates the columns, "
                "declare it in `csv: {delimiter: …}`."
            )
            raise InputError(message, hint, file=path, column=missing[0])
        if doubled := [name for name in columns.names if names.count(name) > 1]:
            message = f"{path} has the column {doubled[0]} {names.count(doubled[0])} times."
            hint = (
                "Which one is meant is not known: rename the others in the file's first line, or "
                "remove the column from the source's `schema`."
            )
            raise InputError(message, hint, file=path, column=doubled[0])
        return names, len(text)

    def _first_record(self, text: bytes) -> bytes:
        """Return the first record that is not blank, with all before it; empty without one."""
        blank = len(text) - len(text.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n"))
        end = self._records.first_end(text[blank:])
        return text[: blank + end] if end else b""
