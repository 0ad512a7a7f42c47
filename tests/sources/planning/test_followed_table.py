"""A Delta table that is followed: each appended row once, and every other change refused."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.files.tables.replaced_range import ReplacedRange
from sources.files.tables.table_commits import RESTORED
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.planning.files.passed_range import pass_range
from sources.planning.plan import make_plan
from sources.serving import OWNER
from sources.storage.tables.delta_log import commit_name
from tests.minimal import minimal_model
from tests.properties import examples

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SOURCE = {
    "type": "files",
    "name": "orders",
    "path": "table",
    "format": "delta",
    "discovery_interval": "1 s",
}


def rows(numbers: range, **columns: Any) -> pa.Table:
    times = [BEGIN + timedelta(minutes=number) for number in numbers]
    at = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(numbers, pa.int64()), "at": at, **columns})


class Followed:
    """A table, and a pipeline that follows it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        self.table = folder / "table"
        self.written = 0
        self.found: Counter[int] = Counter()
        self.changes = changes

    def append(self, count: int = 2, **columns: Any) -> None:
        numbers = range(self.written, self.written + count)
        write_deltalake(self.table, rows(numbers, **columns), mode="append")
        self.written += count

    @property
    def loaded(self) -> LoadedPipeline:
        model = minimal_model({**SOURCE, **self.changes})
        return LoadedPipeline(self.folder / "p.yaml", model)

    def plan(self) -> FoundFiles:
        folder = make_plan(self.loaded).folder
        assert folder is not None
        self._read(folder)
        return folder

    def look(self) -> FoundFiles | None:
        """Whoever looks begins with what the state has."""
        found = self.growing().discover()
        if found is not None:
            self._read(found)
        return found

    def growing(self) -> GrowingFolder:
        return GrowingFolder(PipelineContext.require(self.loaded))

    def _read(self, found: FoundFiles) -> None:
        for path in read_splits(found, self.loaded.require_generation())["path"].to_pylist():
            self.found.update(pq.read_table(path, columns=["id"])["id"].to_pylist())


def test_the_plan_has_a_version_and_later_commits_are_found_from_there(tmp_path: Path) -> None:
    case = Followed(tmp_path)
    case.append()
    case.append()
    planned = case.plan()
    assert (planned.splits, planned.rows) == (2, 4)
    assert planned.position is not None
    assert planned.position.version == 1
    assert case.look() is None
    case.append()
    case.append()
    assert len(case.growing().undiscovered()) == 2
    found = case.look()
    assert found is not None
    assert found.position is not None
    assert (found.position.version, found.splits) == (3, 2)
    assert case.growing().undiscovered() == set()
    assert case.found == Counter(range(8))


@examples(40)
@given(
    st.lists(st.sampled_from(["append", "compact", "look", "checkpoint", "properties"]), max_size=9)
)
def test_each_row_is_found_once_however_files_are_compacted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    case = Followed(tmp_path_factory.mktemp("followed"))
    case.append()
    case.plan()
    for step in steps:
        if step == "append":
            case.append()
        elif step == "look":
            case.look()
        elif step == "compact":
            DeltaTable(case.table).optimize.compact()
        elif step == "checkpoint":
            DeltaTable(case.table).create_checkpoint()
        else:
            table = DeltaTable(case.table)
            table.alter.set_table_properties({"delta.checkpointInterval": "100"})
    while case.look() is not None:
        pass
    assert case.found == Counter(range(case.written))


def delete(case: Followed) -> None:
    DeltaTable(case.table).delete("id = 1")


def update(case: Followed) -> None:
    DeltaTable(case.table).update(predicate="id = 1", updates={"at": "at"})


def overwrite(case: Followed) -> None:
    write_deltalake(case.table, rows(range(9)), mode="overwrite")


def merge(case: Followed) -> None:
    merging = DeltaTable(case.table).merge(rows(range(1)), "s.id = t.id", "s", "t")
    merging.when_matched_update_all().execute()


def restore(case: Followed) -> None:
    DeltaTable(case.table).restore(0)


def promote(case: Followed) -> None:
    overwrite(case)
    path = case.table / commit_name(DeltaTable(case.table).version())
    first = (case.table / commit_name(0)).read_text().splitlines()
    [meta] = [json.loads(line) for line in first if '"metaData"' in line]
    meta["metaData"]["configuration"] = {OWNER: "g2-77aa"}
    path.write_text(f"{path.read_text()}\n{json.dumps(meta)}\n")


def roll_back(case: Followed, to: int) -> None:
    """Bring the rows of a version back, and say so."""
    DeltaTable(case.table).restore(to)
    path = case.table / commit_name(DeltaTable(case.table).version())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("commitInfo", {})[RESTORED] = to
    path.write_text("\n".join(map(json.dumps, lines)))


def make_again(case: Followed) -> None:
    shutil.rmtree(case.table)
    for _ in range(3):
        case.append()


def set_back(case: Followed) -> None:
    for version in (1, 2):
        (case.table / commit_name(version)).unlink()


def clean_log(case: Followed) -> None:
    for _ in range(3):
        case.append()
    DeltaTable(case.table).create_checkpoint()
    for version in range(5):
        (case.table / commit_name(version)).unlink()


def remove(case: Followed) -> None:
    shutil.rmtree(case.table)


def damage(case: Followed) -> None:
    version = DeltaTable(case.table).version()
    (case.table / commit_name(version)).unlink()
    (case.table / commit_name(0)).write_text("no JSON")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (delete, "got version 3 by a commit (DELETE where "),
        (update, "got version 3 by a commit (UPDATE where "),
        (merge, "got version 3 by a commit (MERGE) that removes or rewrites rows"),
        (overwrite, "got version 3 by a commit (WRITE) that removes or rewrites rows"),
        (restore, "got version 3 by a commit (RESTORE) that removes or rewrites rows"),
        (promote, "got version 3 by the promotion or rollback of a generation"),
        (make_again, "has another commit 2 than the one that was read"),
        (set_back, "ends at version 0: it was deleted and created again, or restored"),
        (clean_log, "has version 5 by now, and its log no longer has the commit of version 3"),
        (remove, "is gone: "),
        (damage, "can't be read: "),
    ],
)
def test_what_does_not_only_append_is_refused_with_its_version_and_nothing_is_read(
    tmp_path: Path, change: Callable[[Followed], None], said: str
) -> None:
    case = Followed(tmp_path)
    for _ in range(3):
        case.append()
    case.plan()
    change(case)
    for look in (case.look, lambda: case.growing().undiscovered()):
        with pytest.raises(InputError) as caught:
            look()
        assert said in str(caught.value)
        assert "`hybrid rerun P`" in caught.value.hint
        assert ("reads that table as it is now" in caught.value.hint) != (change is remove)
        assert "`hybrid rerun P`" in caught.value.hint
    assert case.found == Counter(range(6))


def test_what_a_rollback_has_undone_is_passed_and_what_was_not_read_before_is_read_first(
    tmp_path: Path,
) -> None:
    case = Followed(tmp_path)
    case.append()
    case.plan()
    for _ in range(2):
        case.append()
        version = DeltaTable(case.table).version()
        promote(case)
        with pytest.raises(InputError, match="promotion or rollback of a generation"):
            case.growing().undiscovered()
        # Another one that was rolled back, too, changes nothing.
        promote(case)
        roll_back(case, version + 1)
        with pytest.raises(InputError, match="promotion or rollback of a generation"):
            case.growing().undiscovered()
        roll_back(case, version)
        case.append()
        assert len(case.growing().undiscovered()) == 2
        while case.look() is not None:
            pass
    assert case.found == Counter(range(case.written))


@pytest.mark.parametrize("change", [delete, update, merge, overwrite, restore, promote])
def test_what_is_appended_before_rows_are_rewritten_is_found_first(
    tmp_path: Path, change: Callable[[Followed], None]
) -> None:
    case = Followed(tmp_path)
    case.append()
    case.plan()
    case.append()
    case.append()
    change(case)
    found = case.look()
    assert found is not None
    assert found.position is not None
    assert (found.position.version, case.found) == (2, Counter(range(6)))
    for _ in range(2):
        with pytest.raises(InputError, match=r"up to version 2, .*nothing after that version"):
            case.look()


def replace_range(table: Path, *, was_empty: bool) -> None:
    """Replace the row of minute 1, as the recomputation of a range does; or one that was missing.

    Where nothing was, nothing is removed.
    """
    replaced = ReplacedRange(column="at", since=BEGIN, until=BEGIN + timedelta(minutes=2))
    said = CommitProperties(custom_metadata=replaced.as_metadata())
    if was_empty:
        write_deltalake(table, rows(range(1, 2)), mode="append", commit_properties=said)
        return
    write_deltalake(
        table, rows(range(1, 2)), mode="overwrite", predicate="id = 1", commit_properties=said
    )


@pytest.mark.parametrize("was_empty", [False, True], ids=["replaced", "filled"])
def test_before_a_replaced_range_reading_waits_until_it_has_followed(
    tmp_path: Path, was_empty: bool
) -> None:
    case = Followed(tmp_path)
    case.append()
    case.plan()
    running = case.growing()
    case.append()
    replace_range(case.table, was_empty=was_empty)
    case.append()
    found = running.discover()
    assert found is not None
    assert found.position is not None
    assert found.position.version == 1
    # What was appended after the range is not found, however often it is looked.
    assert (running.discover(), running.discover(), case.look()) == (None, None, None)
    assert running.before_a_range() == set()
    with pytest.raises(InputError, match=r"version 2 by a recomputed range, `at` from 2024-01-01T"):
        running.undiscovered()
    generation = case.loaded.require_generation()
    passed = found.position.model_copy(update={"version": 2, "commit": ""})
    pass_range(generation, "orders", passed)
    # The one that runs sees it, and so does one that begins.
    assert case.growing().position == passed
    assert running.discover() is None
    after = running.discover()
    assert after is not None
    assert after.position is not None
    assert (after.splits, after.position.version) == (1, 3)
    assert case.growing().undiscovered() == set()


def test_a_new_generation_reads_what_a_refused_one_could_not(tmp_path: Path) -> None:
    case = Followed(tmp_path)
    case.append(5)
    case.plan()
    delete(case)
    # The state is kept: only another one begins again.
    other = Followed(tmp_path)
    shutil.rmtree(tmp_path / "state")
    planned = other.plan()
    assert (planned.rows, other.look()) == (4, None)


def test_commits_that_were_compacted_and_cleaned_away_while_nobody_looked_are_refused(
    tmp_path: Path,
) -> None:
    case = Followed(tmp_path)
    case.append()
    case.plan()
    case.append()
    table = DeltaTable(case.table)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    # The log still says what was appended; its file is gone, and a run refuses to begin without.
    found = case.growing().discover()
    assert found is not None
    (path,) = read_splits(found, case.loaded.require_generation())["path"].to_pylist()
    assert not Path(path).exists()


def test_a_column_that_was_added_is_refused_and_left_out_if_columns_are_declared(
    tmp_path: Path,
) -> None:
    case = Followed(tmp_path / "all")
    narrow = Followed(tmp_path / "narrow", schema={"id": "bigint", "at": "timestamp"})
    for each in (case, narrow):
        each.folder.mkdir()
        each.append()
        each.plan()
        new = rows(range(2, 4), vip=[True, False])
        write_deltalake(each.table, new, mode="append", schema_mode="merge")
    with pytest.raises(InputError, match="column `vip` of the files that arrived") as caught:
        case.look()
    assert "Begin a new generation" in caught.value.hint
    narrow.look()
    assert narrow.found == Counter(range(4))


def test_names_of_partitions_that_a_log_has_in_another_spelling_are_found(tmp_path: Path) -> None:
    case = Followed(tmp_path)
    for number, name in enumerate(["a b", "ü", "50%", "x/y"]):
        part = rows(range(number, number + 1), shop=[name])
        write_deltalake(case.table, part, mode="append", partition_by=["shop"])
        if number == 0:
            case.plan()
    case.look()
    assert case.found == Counter(range(4))


def test_the_own_target_is_refused(tmp_path: Path) -> None:
    case = Followed(tmp_path, path="out")
    case.table = tmp_path / "out"
    case.append()
    with pytest.raises(InputError, match="the table that this pipeline writes to"):
        case.plan()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 3}, "`version` has no meaning with `discovery_interval`"),
        ({"path": None, "table": "sales.orders"}, "`table` has no meaning with"),
        ({"time_range": {"since": "2024-01-01T00:00:00Z"}}, "`time_range` has no meaning"),
        ({"format": "iceberg"}, "such a table is read at one version"),
    ],
)
def test_what_one_version_needs_is_refused_for_a_table_that_is_followed(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        minimal_model({**SOURCE, **changes})


def test_a_table_that_is_followed_is_the_only_source() -> None:
    history = {"type": "files", "name": "history", "path": "table", "format": "delta"}
    with pytest.raises(ValidationError, match="follows a table, so it can't come after"):
        minimal_model(history, SOURCE)
