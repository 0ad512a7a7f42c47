"""Small Parquet files, and sources of them, wherever they lie."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sources.config.source.file_source import FileSource

JAN_1_US = 1_704_067_200_000_000


def parquet(*minutes: int) -> bytes:
    """A file with a row for each minute after the first of January."""
    micros = pa.array([JAN_1_US + m * 60_000_000 for m in minutes], pa.int64())
    out = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"id": list(minutes), "at": micros.cast(pa.timestamp("us", "UTC"))}), out
    )
    data: bytes = out.getvalue().to_pybytes()
    return data


def source(path: str, **changes: Any) -> FileSource:
    """A declaration of Parquet files."""
    return FileSource.model_validate(
        {"type": "files", "name": "h", "path": path, "format": "parquet", **changes}
    )
