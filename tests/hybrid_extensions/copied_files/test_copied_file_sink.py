"""Files of history in the commits of a table: each micro-batch once, or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from hybrid_extensions.copied_files.judged_files import JudgedFile
from hybrid_extensions.copied_files.spark.sink import CopyingSink
from sources.errors import InputError
from sources.storage.folder import Folder
from spark_jobs.table.delta_table import commit_nothing

QUERY = "6e2ac1d6-9a1c-4b61-8c55-1b0f2a7a9c11"
COLUMNS = pa.schema([("id", pa.int64()), ("s", pa.string())])


class History:
    """Two files, which are all of each micro-batch."""

    columns = COLUMNS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = False
        for number in range(2):
            ids = range(number * 10, number * 10 + 10)
            rows = pa.table(
                {"s": [str(n) for n in ids], "id": ids}, schema=pa.schema([*COLUMNS][::-1])
            )
            pq.write_table(rows, folder / f"{number}.parquet")

    def files(self, _: int) -> Sequence[JudgedFile]:
        paths = sorted(self.folder.glob("*.parquet"))
        return [
            JudgedFile(str(path), path.stat().st_size, {}, pq.read_metadata(path), None)
            for path in paths
        ]

    def require_unchanged(self, _: int) -> None:
        if self.changed:
            raise InputError("A file was rewritten.", "Restore it.")


@pytest.fixture
def history(tmp_path: Path) -> History:
    (tmp_path / "in").mkdir()
    return History(tmp_path / "in")


@pytest.fixture
def sink(tmp_path: Path, history: History) -> CopyingSink:
    checkpoint = Folder(tmp_path / "checkpoint")
    checkpoint.replace_bytes("metadata", json.dumps({"id": QUERY}).encode())
    settings = {"delta.dataSkippingStatsColumns": "`id`"}
    DeltaTable.create(str(tmp_path / "out"), COLUMNS, configuration=settings)
    generation: Any = SimpleNamespace(checkpoint=checkpoint)
    guard: Any = SimpleNamespace(before=lambda _: None)
    return CopyingSink(Folder(tmp_path / "out"), generation, history, guard)


def write(sink: CopyingSink, batch_id: int) -> None:
    """Write a micro-batch whose rows must not be evaluated."""
    nothing: Any = None
    sink.write(nothing, batch_id)


def test_a_micro_batch_is_written_once_with_statistics_of_the_listed_columns(
    tmp_path: Path, sink: CopyingSink
) -> None:
    for batch_id in (0, 0, 1, 0):
        write(sink, batch_id)
    table = DeltaTable(str(tmp_path / "out"))
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == sorted([*range(20), *range(20)])
    assert (table.version(), table.transaction_version(QUERY)) == (2, 1)
    files = pa.table(table.get_add_actions()).to_pylist()
    assert {row["num_records"] for row in files} == {10}
    assert {(row["min"]["id"], row["max"]["id"]) for row in files} == {(0, 9), (10, 19)}
    assert all(row["null_count"].get("s") is None for row in files)


def test_files_that_change_while_they_are_copied_are_not_committed(
    tmp_path: Path, history: History, sink: CopyingSink
) -> None:
    history.changed = True
    with pytest.raises(InputError, match="A file was rewritten"):
        write(sink, 0)
    assert DeltaTable(str(tmp_path / "out")).version() == 0
    history.changed = False
    judged = history.files(0)
    (history.folder / "1.parquet").unlink()
    history.files = lambda _: judged  # type: ignore[method-assign]
    with pytest.raises(InputError, match="is missing, which was there when it was planned"):
        write(sink, 0)
    assert DeltaTable(str(tmp_path / "out")).version() == 0


def test_of_two_drivers_that_write_one_micro_batch_one_does(
    tmp_path: Path, history: History, sink: CopyingSink
) -> None:
    def rival(_: int) -> None:
        done = CommitProperties(app_transactions=[Transaction(QUERY, 0)])
        commit_nothing(DeltaTable(str(tmp_path / "out")), done)

    history.require_unchanged = rival  # type: ignore[method-assign]
    with pytest.raises(CommitFailedError):
        write(sink, 0)
    assert DeltaTable(str(tmp_path / "out")).to_pyarrow_table().num_rows == 0
