"""Types of Parquet that Spark does not have: the audit reads what runs read."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.config.source.file_source import FileSource
from sources.files.listing.source_listing import list_source
from tests.hybrid_extensions.audit.file_rows import read_by_audit
from tests.minimal import minimal_pipeline

ONE = uuid.UUID("00000000-0001-0203-ff05-060708090a0b")


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (pa.array([ONE.bytes, None], pa.uuid()), [ONE.bytes, None]),
        (pa.array(['{"a":  1}', None], pa.json_()), ['{"a":  1}', None]),
    ],
    ids=["uuid", "json"],
)
def test_values_are_those_that_the_file_stores(
    tmp_path: Path, values: pa.Array, stored: list[bytes | str | None]
) -> None:
    at = pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [1, 2], "at": at, "v": values}), tmp_path / "a.parquet")
    source = {"type": "files", "name": "history", "path": "*.parquet", "format": "parquet"}
    loaded = minimal_pipeline(tmp_path, source)
    (declared,) = loaded.pipeline.sources
    assert isinstance(declared, FileSource)
    found = read_by_audit(loaded, tmp_path / "copies").sort_by("id")
    assert found["v"].to_pylist() == stored
    kinds = [each.field("v").type for each in (found.schema, list_source(loaded, declared).read)]
    assert kinds[0] == kinds[1]
