"""Plain text: one row a line."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region, records

TEXT_COLUMNS = pa.schema([("value", pa.string())])
_BLOCK_BYTES = 4 << 20


class Text:
    """See :class:`sources.formats.base.Format`; as Spark's text source, column ``value``."""

    title = "text"
    splits = True

    def columns(self, _: pa.NativeFile) -> pa.Schema:
        """Always :data:`TEXT_COLUMNS`."""
        return TEXT_COLUMNS

    def rows(self, _: pa.NativeFile) -> None:
        """Only counting the lines would tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema, _: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """Lines without their ends."""
        low, high = records(file, region, b"\n")
        stream = file.get_stream(low, high - low)
        rest = b""
        while block := stream.read(_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            yield _rows(lines, columns)
        if rest:
            yield _rows([rest], columns)


def _rows(lines: list[bytes], columns: pa.Schema) -> pa.RecordBatch:
    values = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary())
    return pa.record_batch([values.cast(pa.string())], schema=columns)
