"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json as pa_json

from sources.formats.regions import Region, records, skip_blank

_BLOCK_BYTES = 16 << 20


class JsonLines:
    """See :class:`sources.formats.format.Format`."""

    title = "JSON lines"
    splits = True

    def columns(self, _: pa.NativeFile) -> None:
        """JSON does not carry its types."""

    def rows(self, _: pa.NativeFile) -> None:
        """Only counting the lines would tell."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Fields that are no column are ignored; a missing one is null."""
        low, high = records(file, region, b"\n")
        # Arrow takes blank lines for an error if there is nothing else.
        low = skip_blank(file, low, high)
        if low >= high:
            return
        parse = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
        blocks = pa_json.ReadOptions(block_size=_BLOCK_BYTES)
        for batch in pa_json.open_json(file.get_stream(low, high - low), blocks, parse):
            yield batch.select(columns.names)
