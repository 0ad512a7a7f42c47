"""At which version the audit reads a Delta table, and what the report says of it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.audit.readers.file_views import AuditFiles
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.planning.plan import make_plan
from tests.hybrid_extensions.audit.file_rows import read_by_audit
from tests.minimal import minimal_pipeline

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = pa.table({"id": [1, 2], "at": pa.array([BEGIN, BEGIN], pa.timestamp("us", "UTC"))})


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
        assert files.versions.notes(declared) == []
        make_plan(loaded)
        write_deltalake(tmp_path / "t", ROWS, mode="append")
        return len(files.find(declared)), files.versions.notes(declared)

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
