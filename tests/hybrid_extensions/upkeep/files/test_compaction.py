"""Small files of a table become large ones, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

from hybrid_extensions.generations.files.table_snapshot import read_snapshot
from hybrid_extensions.upkeep.files import small_files
from hybrid_extensions.upkeep.files.compaction import Compaction
from sources.errors import InputError, StateError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.history_files import (
    NO_HISTORY,
    HistoryFiles,
    compaction_id,
    keep_history_files,
    read_history_files,
)

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


def rows(*ids: int, v: str = "x") -> pa.Table:
    at = [BEGIN + timedelta(hours=n) for n in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "day": [f"{each:%Y %m:%d}" for each in at],
            "price": pa.array([Decimal(n) / 100 for n in ids], pa.decimal128(20, 2)),
            "v": pa.array([None if n % 7 == 0 else v for n in ids], pa.string()),
        }
    )


class Case:
    """A table with 6 files of history, then 8 of live rows, and its generation."""

    def __init__(self, folder: Path, by: str | None = None) -> None:
        info = GenerationInfo(generation="g1", transaction_id="t1", created_ms=0, contract={})
        self.generation = Generation(Folder(folder / "state"), info)
        self.folder, self.path, self.by = folder, folder / "t", by
        for n in range(6):
            self.append(2 * n, 2 * n + 1)
        keep_history_files(self.generation, Folder(self.path), Folder(self.path))
        for n in range(100, 108):
            self.append(n)
        self.expected = self.seen()

    def append(self, *ids: int, v: str = "x") -> None:
        write_deltalake(self.path, rows(*ids, v=v), mode="append", partition_by=self.by)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def seen(self) -> list[dict[str, Any]]:
        return sorted(self.table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])

    def history(self) -> HistoryFiles:
        return read_history_files(self.generation, self.table)

    def compaction(
        self, turn: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    ) -> Compaction:
        return Compaction(self.generation, Folder(self.path), self.history, turn)

    def unlisted(self) -> set[str]:
        """Data files that were written by a compaction, and that no commit is about."""
        table = read_snapshot(Folder(self.path))
        listed = {Path(each["path"]).name for each in [*table.files, *table.removed]}
        return {each.name for each in self.path.rglob("compacted-*")} - listed


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_history_and_live_rows_become_one_file_each(case: Case) -> None:
    before = case.table.version()
    would = case.compaction().look()
    assert (case.table.version(), would.commits) == (before, 2)
    done = case.compaction().run(lambda _: None)
    assert (done.commits, done.history_files, done.live_files, done.new_files) == (2, 6, 8, 2)
    assert done == would
    assert case.seen() == case.expected
    assert len(case.table.file_uris()) == 2
    history = case.history().of(paths_of(case.table))
    assert len(history) == 1
    of_history = DeltaTable(case.path).to_pyarrow_dataset().get_fragments()
    [found] = [each for each in of_history if each.path in history]
    assert sorted(found.to_table(columns=["id"])["id"].to_pylist()) == list(range(12))
    for version in (before + 1, before + 2):
        commit = CommitLog(Folder(case.path)).read(version)
        assert commit is not None
        assert (commit.operation, commit.changes_rows) == ("OPTIMIZE", False)
        assert commit.transactions == {compaction_id(case.generation): version - before}
    assert not case.compaction().run(lambda _: None).commits, "there is nothing more to do"
    assert not case.unlisted()


def test_statistics_are_those_of_the_files_before(case: Case) -> None:
    case.compaction().run(lambda _: None)
    [live, history] = sorted(
        (json.loads(each["stats"]) for each in read_snapshot(Folder(case.path)).files),
        key=lambda stats: int(stats["numRecords"]),
    )
    assert live["numRecords"] == 8
    assert (live["minValues"]["id"], live["maxValues"]["id"]) == (100, 107)
    assert history["numRecords"] == 12
    assert history["nullCount"] == {"id": 0, "at": 0, "day": 0, "price": 0, "v": 2}
    assert (history["minValues"]["v"], history["maxValues"]["v"]) == ("x", "x")
    assert history["maxValues"]["at"].startswith("2024-03-01T11:00:00")
    assert history["maxValues"]["price"] == 0.11


def test_each_partition_by_itself_whatever_its_value(tmp_path: Path) -> None:
    case = Case(tmp_path, by="day")
    case.append(24)
    case.append(25)
    case.expected = case.seen()
    done = case.compaction().run(lambda _: None)
    # History of 1 March; live rows of 2 March, of which there is no history, and of the 5th.
    assert (done.history_files, done.live_files, done.new_files) == (6, 10, 3)
    assert case.seen() == case.expected
    found = case.table.to_pyarrow_table(partitions=[("day", "=", "2024 03:02")])
    assert sorted(found["id"].to_pylist()) == [24, 25]
    assert not case.compaction().run(lambda _: None).commits


def test_ranges_of_history_can_be_replaced_before_and_after(case: Case) -> None:
    from hybrid_extensions.ranges.table.event_range import Range  # noqa: PLC0415
    from hybrid_extensions.ranges.table.replace_range import (  # noqa: PLC0415
        Replaced,
        Replacement,
    )

    gone: set[str] = set()

    def replace(number: int, v: str) -> Replaced | None:
        side = case.folder / f"side-{number}"
        write_deltalake(side, rows(3, 4, v=v))
        found = case.history()
        return Replacement(
            table=Folder(case.path),
            side=Folder(side),
            where=Range("at", BEGIN + timedelta(hours=3), BEGIN + timedelta(hours=5)),
            history=HistoryFiles(found.paths, found.gone | gone),
            key=["id"],
            transaction=f"t1-range-{number}",
            scratch=Folder(case.folder / f"scratch-{number}"),
        ).run(gone.update)

    for number in range(3):
        assert replace(number, str(number)) == Replaced(removed=2, written=2, kept_live=0)
        case.compaction().run(lambda _: None)
        changed = {3: str(number), 4: str(number)}
        assert {row["id"]: row["v"] for row in case.seen()} == {
            row["id"]: changed.get(row["id"], row["v"]) for row in case.expected
        }
    # OPTIMIZE by somebody else mixes history with live rows, and is noticed.
    case.append(200)
    case.table.optimize.compact()
    with pytest.raises(StateError, match="1 file of history is no longer in"):
        replace(9, "z")


def test_before_the_stream_has_started_everything_is_history(case: Case) -> None:
    everything = lambda: HistoryFiles(set(paths_of(case.table)), set())  # noqa: E731
    compaction = Compaction(case.generation, Folder(case.path), everything, contextlib.nullcontext)
    assert compaction.run(lambda _: None).history_files == 14


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("fails_at", range(1, 6))
def test_killed_at_any_write_it_leaves_the_table_as_it_was_and_is_repeated(
    case: Case, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = 0
    put, put_if_absent = LocalDocuments.put, LocalDocuments.put_if_absent

    def count() -> None:
        nonlocal writes
        writes += 1
        if writes == fails_at:
            raise KilledError

    def counted_put(self: LocalDocuments, path: str, data: bytes) -> str:
        count()
        return put(self, path, data)

    def counted_commit(self: LocalDocuments, path: str, data: bytes) -> str | None:
        count()
        return put_if_absent(self, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalDocuments, "put", counted_put)
        patched.setattr(LocalDocuments, "put_if_absent", counted_commit)
        with pytest.raises(KilledError):
            case.compaction().run(lambda _: None)
    assert case.seen() == case.expected
    names = paths_of(case.table)
    assert len(case.history().of(names)) + 8 in {len(names), len(names) + 7}
    assert not case.history().paths - case.history().gone - set(names), "no file is missing"
    case.append(108)
    case.compaction().run(lambda _: None)
    assert len(case.table.file_uris()) == 2
    assert len(case.seen()) == len(case.expected) + 1
    assert not case.history().paths - case.history().gone - set(paths_of(case.table))


def test_another_writers_appends_do_no_harm_and_its_changes_are_kept(case: Case) -> None:
    turns = 0

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        nonlocal turns
        turns += 1
        if turns == 1:
            done = CommitProperties(app_transactions=[Transaction("stream", 1)])
            write_deltalake(case.path, rows(300), mode="append", commit_properties=done)
        if turns == 2:
            case.table.delete("id = 5")
        yield

    case.compaction(turn).run(lambda _: None)
    ids = {row["id"] for row in case.seen()}
    assert ids == {*range(12), *range(100, 108), 300} - {5}
    assert not case.unlisted()


def test_another_writers_change_of_the_table_itself_ends_it(case: Case) -> None:
    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        case.table.alter.set_table_properties({"delta.checkpointInterval": "7"})
        yield

    with pytest.raises(StateError, match="has changed columns, properties or the protocol"):
        case.compaction(turn).run(lambda _: None)
    assert case.seen() == case.expected
    assert not case.unlisted()


def test_a_second_compaction_at_the_same_time_is_noticed(case: Case) -> None:
    turns = 0

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        nonlocal turns
        turns += 1
        if turns == 1:
            other = Compaction(
                case.generation, Folder(case.path), lambda: NO_HISTORY, contextlib.nullcontext
            )
            case.append(400)
            case.append(401)
            other.run(lambda _: None)
        yield

    with contextlib.suppress(StateError):
        case.compaction(turn).run(lambda _: None)
    ids = [row["id"] for row in case.seen()]
    assert ids == sorted({*range(12), *range(100, 108), 400, 401})


def test_many_files_are_compacted_in_several_commits(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "FILES_PER_COMMIT", 3)
    done = case.compaction().run(lambda _: None)
    assert case.seen() == case.expected
    assert done.commits > 4
    assert len(case.table.file_uris()) == 2


def test_large_files_and_layouts_of_their_own_stay(case: Case) -> None:
    case.table.alter.add_columns([DeltaField("more", PrimitiveType("integer"))])

    def append(*ids: int) -> None:
        more = pa.array([1] * len(ids), pa.int32())
        write_deltalake(case.path, rows(*ids).append_column("more", more), mode="append")

    append(500)
    case.expected = case.seen()
    done = case.compaction().run(lambda _: None)
    assert (done.live_files, len(case.table.file_uris())) == (8, 3)
    assert case.seen() == case.expected
    sizes = {each["path"]: each["size"] for each in read_snapshot(Folder(case.path)).files}
    half = str(min(sizes.values()))
    case.table.alter.set_table_properties({"delta.targetFileSize": half})
    append(501)
    append(502)
    assert not case.compaction().run(lambda _: None).commits


def test_a_missing_file_is_named(case: Case) -> None:
    Path(case.table.file_uris()[0].removeprefix("file://")).unlink()
    with pytest.raises(StateError, match=r"part-.*\.parquet is missing"):
        case.compaction().run(lambda _: None)


def test_a_feature_that_files_alone_do_not_have_is_refused(case: Case) -> None:
    log = case.path / "_delta_log" / f"{case.table.version() + 1:020d}.json"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["inCommitTimestamp"],
    }
    log.write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(InputError, match="`inCommitTimestamp`"):
        case.compaction().look()


def test_the_table_can_be_opened_at_every_version(case: Case) -> None:
    case.compaction().run(lambda _: None)
    case.table.create_checkpoint()
    for version in range(case.table.version() + 1):
        assert open_table(Folder(case.path), version).version() == version
