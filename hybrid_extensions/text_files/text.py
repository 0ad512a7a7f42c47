"""Reader of plain text files, each line a row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hybrid_extensions.text_files.text_checks import require_codec
from sources.formats.base import TEXT_COLUMNS
from sources.formats.file_regions import Region, record_bounds
from sources.formats.lines import BYTE_ORDER_MARK, OnBad, blocks, refuse
from sources.formats.row_check import RowCheck


class Text:
    """Reader of plain text files: one column ``value``, as Spark's text source has it."""

    title = "text"
    splits = True
    checks = False

    def columns(self, _: pa.NativeFile) -> pa.Schema:
        """Return the one string column ``value``, whatever the file contains."""
        return TEXT_COLUMNS

    def rows(self, _: pa.NativeFile) -> None:
        """Return None: a text file does not record its number of lines."""

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        _: OnBad = refuse,
        __: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the lines that begin in a byte region of a file, without their line ends.

        In batches of one string column, a row per line, in the order of the file. A line that ends
        after the region is read whole; a byte order mark belongs to no line. Handler of bad rows
        and check are ignored.

        Args:
            file: The file, decompressed.
            region: The byte range.
            columns: Schema of the batches: one string column.

        Raises:
            InputError: The file's suffix is that of a codec which is not read.
            pyarrow.ArrowInvalid: A line is not UTF-8.
        """
        require_codec(region.path)
        low, high = record_bounds(file, region, b"\n")
        for offset, block in blocks(file.get_stream(low, high - low), low):
            if not offset:
                block = block.removeprefix(BYTE_ORDER_MARK)  # noqa: PLW2901 - the same lines
            yield _rows(block.removesuffix(b"\n").split(b"\n"), columns)


def _rows(lines: list[bytes], columns: pa.Schema) -> pa.RecordBatch:
    """Return lines as a batch of one string column, without carriage returns at their ends."""
    values = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary())
    return pa.record_batch([values.cast(pa.string())], schema=columns)
