"""The gap at the switch, from the files of a table and when they became part of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from benchmarks.flink.results import files_of_flink
from benchmarks.flink.switch_gap import DataFile, Gap, delta_files, flink_files, gap

FIRST_LIVE = 100


def file(closed_ms: int, committed_ms: int, highest_id: int) -> DataFile:
    return DataFile(Path("file"), closed_ms, committed_ms, highest_id)


def test_from_the_last_file_of_history_to_the_first_commit_with_a_live_row() -> None:
    files = [file(10, 20, 50), file(15, 21, 99), file(30, 44, 180), file(30, 90, 199)]
    assert gap(files, FIRST_LIVE) == Gap(from_row_ms=29, from_commit_ms=23)


def test_a_commit_of_both_leaves_no_gap_between_commits() -> None:
    files = [file(10, 20, 50), file(38, 40, 99), file(38, 41, 180)]
    assert gap(files, FIRST_LIVE, history_read_ms=30) == Gap(from_row_ms=11, from_commit_ms=1)


def test_history_that_is_committed_after_the_first_live_row_does_not_count_twice() -> None:
    files = [file(10, 20, 50), file(38, 45, 99), file(38, 41, 180)]
    assert gap(files, FIRST_LIVE, history_read_ms=30).from_commit_ms == 0


def test_files_of_delta_are_committed_with_their_version(tmp_path: Path) -> None:
    for ids in ([1, 99], [100, 101]):
        write_deltalake(tmp_path, pa.table({"id": ids}), mode="append")
    history, live = delta_files(tmp_path)
    assert (history.highest_id, live.highest_id) == (99, 101)
    assert history.closed_ms <= history.committed_ms <= live.committed_ms


def test_files_of_flink_are_committed_when_they_are_renamed(tmp_path: Path) -> None:
    hidden = tmp_path / ".part-0.parquet.inprogress"
    pq.write_table(pa.table({"id": [7]}), hidden)
    assert files_of_flink(tmp_path) == []
    hidden.rename(tmp_path / "part-0.parquet")
    (found,) = flink_files(tmp_path)
    assert found.highest_id == 7
    assert found.committed_ms >= found.closed_ms
