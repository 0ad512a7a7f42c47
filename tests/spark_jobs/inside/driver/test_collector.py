"""Bad records of either kind are counted once and written where their policy says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sources.config.source.bad_record_policy import BadRecordCount, BadRecords, bad_count_name
from sources.config.source.event_time import EventTime
from sources.config.table.row_rules import NO_RULES
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.inside.driver.reports.collect_bad_records import Collector
from spark_jobs.inside.readers.staged_bad_records import STAGED, staging_folder

Staged = list[tuple[int, str]]  # offset and kind
# A task that was tried twice, and two kinds side by side.
FILES: list[Staged] = [
    [(1, "unreadable"), (3, "outside")],
    [(1, "unreadable"), (3, "outside"), (4, "outside")],
    [(9, "unreadable")],
]
STORES = Stores(S3Settings())
MORE: list[Staged] = [[(12, "outside"), (11, "unreadable"), (13, "outside")]]


def generation_in(folder: Path) -> Generation:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    (folder / "g1").mkdir()
    generation = Generation(Folder(folder / "g1"), info)
    (generation.checkpoint.root / "commits").mkdir(parents=True)
    return generation


def stage(generation: Generation, batch: int, files: list[Staged]) -> Path:
    folder = staging_folder(generation, "live").root / str(batch)
    folder.mkdir(parents=True)
    for at, rows in enumerate(files):
        columns: list[list[Any]] = [
            ["topic"] * len(rows),
            [0] * len(rows),
            [offset for offset, _ in rows],
            [0] * len(rows),
            [b"k"] * len(rows),
            [b"v"] * len(rows),
            [kind for _, kind in rows],
            ["reason"] * len(rows),
        ]
        arrays = [pa.array(each, kind) for each, kind in zip(columns, STAGED.types, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=STAGED), folder / f"{at}.parquet")
    return folder


def commit(generation: Generation, batch: int) -> None:
    (generation.checkpoint.root / "commits" / str(batch)).touch()


@pytest.mark.parametrize("on_bad_record", ["fail", "drop", "quarantine"])
@pytest.mark.parametrize("outside", ["drop", "quarantine"])
def test_each_kind_is_counted_once_and_written_by_its_own_policy(
    tmp_path: Path, on_bad_record: Any, outside: Any
) -> None:
    generation = generation_in(tmp_path)
    declared = BadRecords(on_bad_record=on_bad_record)
    event_time = EventTime(column="at", outside=outside)
    collector = Collector(generation, "live", declared, event_time, STORES)
    stage(generation, 0, FILES)
    assert collector.collect() == BadRecordCount(source="live"), "nothing is committed"
    shutil.copytree(staging_folder(generation, "live").root, tmp_path / "staged")
    commit(generation, 0)
    assert collector.collect() == BadRecordCount(source="live", total=2, outside=2, last_batch=0)
    stage(generation, 1, MORE)
    commit(generation, 1)
    expected = BadRecordCount(source="live", total=3, outside=4, last_batch=1)
    assert collector.collect() == expected
    assert generation.read(bad_count_name("live"), BadRecordCount) == expected
    # The driver died before it removed what it had taken.
    shutil.copytree(
        tmp_path / "staged", staging_folder(generation, "live").root, dirs_exist_ok=True
    )
    assert collector.collect() == expected
    table = DeltaTable(generation.path("quarantine/live")).to_pyarrow_table().sort_by("offset")
    kinds = dict(zip(table["offset"].to_pylist(), table["kind"].to_pylist(), strict=True))
    unreadable = dict.fromkeys([1, 9, 11], "unreadable") if on_bad_record == "quarantine" else {}
    assert kinds == {**unreadable, **dict.fromkeys([3, 4, 12, 13], "outside")}


def test_without_a_record_to_write_there_is_no_table(tmp_path: Path) -> None:
    generation = generation_in(tmp_path)
    declared = BadRecords(on_bad_record="drop")
    collector = Collector(
        generation, "live", declared, EventTime(column="at", outside="drop"), STORES
    )
    stage(generation, 0, [[(1, "unreadable")]])
    commit(generation, 0)
    assert collector.collect() == BadRecordCount(source="live", total=1, last_batch=0)
    assert not generation.path("quarantine").exists()


@pytest.mark.parametrize(
    ("on_bad_record", "outside", "is_used"),
    [
        ("fail", "fail", False),
        ("drop", "fail", False),
        ("fail", "keep", False),
        ("quarantine", "fail", True),
        ("fail", "drop", True),
        ("drop", "quarantine", True),
    ],
)
def test_a_table_may_be_named_where_a_policy_writes_to_it(
    on_bad_record: Any, outside: Any, is_used: bool
) -> None:
    declared = BadRecords(on_bad_record=on_bad_record, quarantine="bad")
    event_time = EventTime(column="at", outside=outside)
    if is_used:
        declared.check_quarantine("live", event_time, NO_RULES)
        return
    with pytest.raises(ValueError, match="source `live`: `quarantine: bad` names a table that not"):
        declared.check_quarantine("live", event_time, NO_RULES)
