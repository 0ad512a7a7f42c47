"""Files that nobody needs are deleted, and no others."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.generations.files.retention import RETENTION
from hybrid_extensions.upkeep.files.vacuum import find_unneeded
from sources.errors import InputError
from sources.storage.folder import Folder

DAY_S = 86_400


class Case:
    """A partitioned table of which some files were removed; all of them are eight days old."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self.path = folder / "t"
        for n in range(4):
            rows = pa.table({"id": [n], "_day": ["a b"]})
            write_deltalake(
                self.path,
                rows,
                mode="append",
                partition_by="_day",
                configuration={f"delta.{name}": value for name, value in properties.items()},
            )

    def compact(self, removed_ago_s: float) -> set[str]:
        """Replace all files by one; return those that it replaced."""
        before = self.files()
        self.table.optimize.compact()
        log = self.path / "_delta_log" / f"{self.table.version():020d}.json"
        lines = [json.loads(each) for each in log.read_text().splitlines()]
        for each in lines:
            if "remove" in each:
                each["remove"]["deletionTimestamp"] = int((time.time() - removed_ago_s) * 1000)
        log.write_text("\n".join(map(json.dumps, lines)))
        return before

    def declare(self, properties: dict[str, str]) -> None:
        """Write properties into the log, as delta-rs refuses some that Spark accepts."""
        log = self.path / "_delta_log" / f"{0:020d}.json"
        lines = [json.loads(each) for each in log.read_text().splitlines()]
        for each in lines:
            if "metaData" in each:
                each["metaData"]["configuration"] = properties
        log.write_text("\n".join(map(json.dumps, lines)))

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def files(self) -> set[str]:
        return {str(each) for each in self.path.rglob("*.parquet")}

    def age(self, seconds: float) -> None:
        then = time.time() - seconds
        for each in self.path.rglob("*"):
            if each.is_file():
                os.utime(each, (then, then))

    def vacuum(self, *versions: int) -> set[str]:
        before = self.files()
        found = find_unneeded(Folder(self.path), versions)
        assert self.files() == before
        found.delete()
        assert before - self.files() == {each.path for each in found.files}
        assert self.table.to_pyarrow_table().num_rows == 4
        return before - self.files()


def test_files_that_were_removed_long_ago_are_deleted(tmp_path: Path) -> None:
    case = Case(tmp_path)
    removed = case.compact(8 * DAY_S)
    case.age(9 * DAY_S)
    assert case.vacuum() == removed
    assert case.vacuum() == set()


def test_open_readers_keep_what_was_removed_lately(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.compact(6 * DAY_S)
    case.age(9 * DAY_S)
    assert case.vacuum() == set()


@pytest.mark.parametrize(
    "name",
    [
        "state/events/g1/plan.json",
        "events/g1/positions/history-end.json",
        "quarantine/part-0.parquet",
        "cut/_day=a/part-0.parquet",
    ],
)
def test_folders_that_are_no_partition_of_the_table_are_left_alone(
    tmp_path: Path, name: str
) -> None:
    case = Case(tmp_path)
    (case.path / name).parent.mkdir(parents=True)
    (case.path / name).write_text("{}")
    case.age(40 * DAY_S)
    assert case.vacuum() == set()
    assert (case.path / name).exists()


@pytest.mark.parametrize("mapping", ["delta.randomizeFilePrefixes", "delta.checkpointInterval"])
def test_folders_with_random_names_are_the_tables_where_delta_makes_them(
    tmp_path: Path, mapping: str
) -> None:
    case = Case(tmp_path)
    case.declare({mapping: "true"})
    (case.path / "aB").mkdir()
    orphan = case.path / "aB" / "part-0.parquet"
    orphan.write_text("x")
    case.age(40 * DAY_S)
    assert case.vacuum() == ({str(orphan)} if "Prefixes" in mapping else set())


@pytest.mark.parametrize(
    "retention", ["INTERVAL 30 DAYS", "30 days", "interval 1 week 23 days", "interval  30  days"]
)
@pytest.mark.parametrize(("removed_days_ago", "deleted"), [(29, 0), (31, 4)])
def test_a_retention_counts_in_every_form_that_delta_takes(
    tmp_path: Path, retention: str, removed_days_ago: int, deleted: int
) -> None:
    case = Case(tmp_path)
    case.declare({RETENTION: retention})
    case.compact(removed_days_ago * DAY_S)
    case.age(40 * DAY_S)
    assert len(case.vacuum()) == deleted


def test_a_rollback_keeps_its_version(tmp_path: Path) -> None:
    case = Case(tmp_path)
    version = case.table.version() - 1
    removed = case.compact(8 * DAY_S)
    case.age(9 * DAY_S)
    assert len(case.vacuum(version)) == 1
    assert len(removed & case.files()) == 3
    assert DeltaTable(case.path, version=version).to_pyarrow_table().num_rows == 3


def test_what_is_not_committed_yet_is_left_alone_for_a_day(tmp_path: Path) -> None:
    case = Case(tmp_path, deletedFileRetentionDuration="interval 0 hours")
    orphan = case.path / "_day=a%20b" / "part-orphan.parquet"
    orphan.parent.mkdir(exist_ok=True)
    case.age(9 * DAY_S)
    orphan.write_bytes(b"x")
    assert case.vacuum() == set()
    case.age(DAY_S + 60)
    assert case.vacuum() == {str(orphan)}


def test_hidden_files_are_left_alone(tmp_path: Path) -> None:
    case = Case(tmp_path)
    hidden = ["_generations/g2/part-0.parquet", "_change_data/c.parquet", ".part-1.parquet"]
    for name in hidden:
        (case.path / name).parent.mkdir(exist_ok=True, parents=True)
        (case.path / name).write_bytes(b"x")
    case.age(9 * DAY_S)
    assert case.vacuum() == set()


def test_a_retention_in_an_unknown_form_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.declare({RETENTION: "interval 1 day 3 moons"})
    with pytest.raises(InputError, match=r"`delta\.deletedFileRetentionDuration: interval 1 day 3"):
        find_unneeded(Folder(case.path), [])
