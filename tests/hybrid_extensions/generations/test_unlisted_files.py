"""Files of earlier generations inside the target are deleted if nobody needs them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.generations.files.unlisted_files import delete_unlisted, needed_files
from sources.errors import InputError
from sources.serving import GENERATIONS
from sources.storage.folder import Folder

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two versions, of which the second one replaced all rows of the first."""
    write_deltalake(tmp_path / "t", ROWS)
    write_deltalake(tmp_path / "t", ROWS, mode="overwrite")
    return tmp_path / "t"


def put(table: Path, *names: str) -> None:
    for name in names:
        path = table / GENERATIONS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")


def left(table: Path) -> set[str]:
    folder = table / GENERATIONS
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def delete(table: Path, *versions: int) -> int:
    target = Folder(table)
    return delete_unlisted(target, target.folder(GENERATIONS), versions)


def test_what_no_version_lists_is_deleted_but_not_of_a_generation_that_waits(table: Path) -> None:
    assert delete(table) == 0
    put(table, "g5/a.parquet", "g5/day=1/b.parquet", "g6/c.parquet", "g6/_delta_log/0.json")
    files = DeltaTable(table).file_uris()
    assert delete(table, 0) == 2
    assert left(table) == {"g6/c.parquet", "g6/_delta_log/0.json"}
    assert delete(table, 0) == 0
    assert DeltaTable(table).file_uris() == files
    assert all(Path(file).exists() for file in files)


def test_a_version_that_delta_has_removed_is_passed_over_and_no_other_one(table: Path) -> None:
    versions = [DeltaTable(table, version=version).file_uris() for version in (0, 1)]
    every = {Path(file).name for files in versions for file in files}
    assert set(needed_files(Folder(table), [99, 0])) == every
    # One that the log holds and that can't be read is none that was removed.
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text("{")
    with pytest.raises(InputError):
        list(needed_files(Folder(table), [0]))
