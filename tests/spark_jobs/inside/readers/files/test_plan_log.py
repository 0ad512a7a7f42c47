"""The Delta log of a plan, as it is on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sources.storage.folder import Folder
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog

COLUMNS = pa.schema([("id", pa.int64())])


def test_a_version_and_its_splits_are_on_disk_before_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without its content, after a power failure, would be a plan that lacks files."""
    synced: list[str] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    log = PlanLog(Folder(tmp_path / "log"))
    entry = log.keep("splits-0.parquet", pa.table({"id": [1]}))
    log.write(0, FilesOfLog(COLUMNS), [entry, Entry("/data/a.parquet", 7)])
    files = [name for name in synced if name.startswith(".")]
    assert [name.split(".")[1] for name in files] == ["splits-0", f"{0:020d}"]
    # The names of new folders, then those of the documents in them.
    folders = [tmp_path.name, "log", "log", "_delta_log"]
    assert [name for name in synced if not name.startswith(".")] == folders
    assert log.has(0)
    assert not log.has(1)
    table = DeltaTable(log.folder.url)
    assert [Path(uri).name for uri in table.file_uris()] == ["splits-0.parquet", "a.parquet"]
    left = [path.name for path in log.folder.root.rglob("*") if path.name.startswith(".")]
    assert left == []
