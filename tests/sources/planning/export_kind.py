"""A kind of source that writes numbers, for tests of exports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from sources.config.source.exported_source import Export, ExportedSource, ExportEnd

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


class Numbers(ExportedSource):
    """A kind that writes a row a file, and lets a test do something before each."""

    found: ClassVar[list[list[str]]] = []
    meanwhile: ClassVar[Callable[[int], None]] = lambda _: None
    end: ClassVar[Any] = ExportEnd()

    type: Literal["numbers"] = "numbers"
    rows: int = 2

    def export(self, export: Export) -> ExportEnd:
        self.found.append(export.folder.names("*"))
        for number in range(self.rows):
            type(self).meanwhile(number)
            export.folder.replace_bytes(f"{number}.parquet", row(number))
        found: ExportEnd = self.end
        return found


class Resumed(Numbers):
    resumes = True


def row(number: int, *, rows: int = 1) -> bytes:
    out = pa.BufferOutputStream()
    at = pa.array([BEGIN + timedelta(seconds=number)] * rows, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": pa.array([number] * rows, pa.int64()), "at": at}), out)
    data: bytes = out.getvalue().to_pybytes()
    return data
