"""Delta tables as the audit reads them: with all their columns, whatever their files have."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType, StructType

from hybrid_extensions.audit.readers.history_files import AuditFiles
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.planning.plan import make_plan
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


@pytest.mark.parametrize("lost", [{"version": 7}, {}], ids=["version", "log"])
def test_a_table_that_can_not_be_opened_is_refused_by_name(
    tmp_path: Path, lost: dict[str, int]
) -> None:
    write_deltalake(tmp_path / "t", ROWS)
    source = {"type": "files", "name": "history", "path": "t", "format": "delta", **lost}
    loaded = minimal_pipeline(tmp_path, source)
    if not lost:
        shutil.rmtree(tmp_path / "t" / "_delta_log")
    reason = "Source `history` can't be read by the audit: its Delta table.* can't be opened: "
    with pytest.raises(InputError, match=reason):
        read_by_audit(loaded, tmp_path / "copies")


def test_a_followed_table_is_read_up_to_what_was_found_and_the_report_says_so(
    tmp_path: Path,
) -> None:
    write_deltalake(tmp_path / "t", ROWS)
    source = {"type": "files", "name": "orders", "path": "t", "format": "delta"}

    def read(**more: str) -> tuple[int, list[str]]:
        loaded = minimal_pipeline(tmp_path, {**source, **more}, state="-".join(["state", *more]))
        files = AuditFiles(loaded, tmp_path / "copies")
        [declared] = loaded.pipeline.sources
        assert isinstance(declared, FileSource)
        assert files.notes(declared) == []
        make_plan(loaded)
        write_deltalake(tmp_path / "t", ROWS, mode="append")
        return len(files.find(declared)), files.notes(declared)

    followed = read(discovery_interval="1 min")
    assert followed == (
        1,
        [
            "Source `orders`: rows of its table at version 0, up to which the pipeline has found "
            "what is appended; the newest one is 1."
        ],
    )
    # A table that is read once has the version of the plan: that is all of it.
    assert read() == (2, [])
