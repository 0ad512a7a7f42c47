"""Delta tables as the audit reads them: with all their columns, whatever their files have."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType, StructType

from tests.hybrid_extensions.audit.file_rows import read_by_audit
from tests.minimal import minimal_pipeline

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "at": pa.array([BEGIN, BEGIN], pa.timestamp("us", "UTC")),
        "of": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    }
)
FEW = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize("configuration", [{}, FEW], ids=["by DuckDB", "by delta-rs"])
def test_a_column_that_no_file_has_yet_is_null(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    write_deltalake(tmp_path / "t", ROWS, configuration=configuration)
    text = PrimitiveType("string")
    inside = StructType([Field("a", PrimitiveType("long")), Field("b", text)])
    added = Schema([Field("of", inside), Field("later", text)])
    DeltaTable(tmp_path / "t").alter.add_columns(list(added.fields))
    source = {"type": "files", "name": "history", "path": "t", "format": "delta"}
    found = read_by_audit(minimal_pipeline(tmp_path, source), tmp_path / "copies")
    wanted = [
        {**row, "of": row["of"] and {**row["of"], "b": None}, "later": None}
        for row in ROWS.to_pylist()
    ]
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == wanted
