"""The memory of a MERGE by Delta's Rust library is bounded by that of the files it touches."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake

from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.merging.small_merge import MOST_BYTES, SmallMerge, merge_by_rust
from spark_jobs.inside.sink.table_properties import STATISTICS

pytestmark = pytest.mark.slow
ROWS = 550_000
COLUMNS = ["id", "note"]


def peaks(folder: str) -> list[int]:
    """Highest memory of this process in MiB: before all MERGEs, and after each of them."""
    found = [_peak()]
    for number in range(4):
        assert _merge(Folder(folder), number)
        found.append(_peak())
    return found


def _merge(target: Folder, number: int) -> bool:
    """Update two rows that are far apart, and insert one."""
    clauses = [
        When("MATCHED", "UPDATE", "s.id >= t.id", of_source(COLUMNS)),
        When("NOT MATCHED", "INSERT", values=of_source(COLUMNS)),
    ]
    match = Match("(t.`id` IS NOT DISTINCT FROM s.`id`)", {"id": (0, 2 * ROWS)})
    ids = [number, ROWS // 2 + number, ROWS + number]
    rows = pa.table({"id": pa.array(ids, pa.int64()), "note": ["new"] * len(ids)})
    small = SmallMerge(rows=len(rows), bytes=rows.nbytes, compared=["id"], clauses=clauses)
    return merge_by_rust(lambda: rows, target, match, small, Transaction("t", number), None)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_merges_into_the_largest_files_take_some_hundred_megabytes_however_many_they_are(
    tmp_path: Path,
) -> None:
    chance = np.random.default_rng(1)
    notes = pa.array([chance.bytes(50).hex() for _ in range(ROWS)])
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), "note": notes})
    path = str(tmp_path / "out")
    write_deltalake(path, table, configuration={STATISTICS: "`id`"}, target_file_size=2**30)
    (size,) = pa.table(DeltaTable(path).get_add_actions())["size_bytes"].to_pylist()
    assert 0.6 * MOST_BYTES < size < MOST_BYTES
    # In a process of its own, as memory is that of all that a process ever did.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        before, first, *others = pool.submit(peaks, path).result()
    assert first - before < 700
    assert max(others) - first < 150
    assert DeltaTable(path).to_pyarrow_table(columns=["id"]).num_rows == ROWS + 4
