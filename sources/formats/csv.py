"""Comma-separated values (RFC 4180), and what else separates them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pydantic import Field

from sources.declared import Declared
from sources.errors import InputError
from sources.formats.regions import Region, border, records, skip_blank

_BLOCK_BYTES = 16 << 20
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
    """See :class:`sources.formats.format.Format`."""

    title = "CSV"

    def __init__(self, options: CsvOptions) -> None:
        self._options = options
        self.splits = not options.multiline

    def columns(self, _: pa.NativeFile) -> None:
        """CSV does not carry its types."""

    def rows(self, _: pa.NativeFile) -> None:
        """Only counting the lines would tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the file that are not asked for are ignored; a missing one is refused."""
        names, begin = self._names(file, region, columns)
        low, high = records(file, region, b"\n", begin)
        # Arrow takes nothing at all for an error.
        if skip_blank(file, low, high) >= high:
            return
        # Instants are read as text: Arrow refuses those without a zone, which mean UTC here.
        kinds = {
            field.name: pa.string() if pa.types.is_timestamp(field.type) else field.type
            for field in columns
        }
        convert = pa_csv.ConvertOptions(
            column_types=kinds,
            include_columns=columns.names,
            null_values=self._options.null,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pa_csv.ParseOptions(
            delimiter=self._options.delimiter,
            quote_char=self._options.quote,
            newlines_in_values=self._options.multiline,
        )
        read = pa_csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=names)
        for batch in pa_csv.open_csv(file.get_stream(low, high - low), read, parse, convert):
            arrays = [_instants(batch[field.name], field.type) for field in columns]
            yield pa.record_batch(arrays, schema=columns)

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


def _instants(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(kind):
        return values
    zoned = pc.match_substring_regex(values, _ZONE)
    marked = pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", ""))
    return marked.cast(kind)
