"""Check of parsed rows: those that fail go to a handler, like bad rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from sources.common.schema import with_leaves
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow, OnBad

Find = Callable[[pa.Table], Sequence[tuple[int, str]]]
"""Function that returns the rows of a table that do not pass: index, in ascending order, and
reason, as a phrase that follows a colon."""


class RowCheck:
    """Check of a file's rows after they were parsed, such as of their event times.

    Args:
        find: Returns index and reason of the rows that do not pass.
        handler: Called with each of them; if it returns, reading continues without the row.
    """

    def __init__(self, find: Find, handler: OnBad) -> None:
        self._find = find
        self._handler = handler

    def pass_lines(self, path: str, offset: int, block: bytes, rows: pa.Table) -> pa.Table:
        """Return the rows of a block of lines that pass; the handler gets each other line.

        What the handler raises is raised.

        Args:
            path: The file.
            offset: Offset of the block's first byte.
            block: Whole lines.
            rows: One row for each line that is not blank.
        """
        found = self._find(rows)
        if not found:
            return rows
        # A line of blanks is none in JSON, and may be one in CSV.
        lines = _lines(offset, block, b" \t\r")
        if len(lines) != len(rows):
            lines = _lines(offset, block, b"\r")
        for index, reason in found:
            self._handler(BadRow(path, *lines[index], reason))
        return _without(rows, found)

    def pass_rows(
        self, region: Region, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file that pass this check.

        For formats that do not say at which byte a row begins. A row that does not pass goes to the
        handler as JSON, with an offset that is the first byte of the part plus the number of rows
        before it. What the handler raises is raised.

        Args:
            region: The part of the file.
            batches: Its rows, in order.
        """
        before = region.offset
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            found = self._find(rows)
            for index, reason in found:
                content = as_json(rows.slice(index, 1))[0]
                self._handler(BadRow(region.path, before + index, content, reason))
            before += len(rows)
            yield from _without(rows, found).to_batches() if found else [batch]


def as_json(rows: pa.Table) -> list[bytes]:
    """Return each row as a JSON object in bytes; times and other values become text.

    Empty without rows.
    """
    # Python has no years after 9999, which wrong units make.
    shown = [field.with_type(with_leaves(field.type, _as_shown)) for field in rows.schema]
    rows = rows.cast(pa.schema(shown))
    return [json.dumps(row, default=str).encode() for row in rows.to_pylist()]


def _as_shown(leaf: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_temporal(leaf) else leaf


def _lines(offset: int, block: bytes, blanks: bytes) -> list[tuple[int, bytes]]:
    """Return the lines of a block that have more than blanks, each with the offset of its start."""
    lines = []
    for line in block.split(b"\n"):
        if line.strip(blanks):
            lines.append((offset, line.rstrip(b"\r")))
        offset += len(line) + 1
    return lines


def _without(rows: pa.Table, found: Sequence[tuple[int, str]]) -> pa.Table:
    passes = np.ones(len(rows), bool)
    passes[[index for index, _ in found]] = False
    return rows.filter(pa.array(passes))
