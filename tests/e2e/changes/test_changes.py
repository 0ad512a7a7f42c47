"""The sink that puts changes in order, batch by batch."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from hybrid_extensions.ordered_changes.spark import deletes
from hybrid_extensions.ordered_changes.spark.newest_change import merge_changes
from hybrid_extensions.ordered_changes.spark.truncation import Truncation
from sources.config.table.sink import Sink
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.sink import prepare_table

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

SCHEMA = "id bigint, v string, seq string, gone boolean"
VECTORS = "delta.enableDeletionVectors"
Change = tuple[int, str | None, str | Decimal | datetime | None, bool]


class Target:
    """A target that micro-batches are merged into."""

    def __init__(
        self, folder: Path, spark: SparkSession, schema: str = SCHEMA, **more: Any
    ) -> None:
        self._spark = spark
        self._schema = schema
        self._path = str(folder / "out")
        declared = {"mode": "merge", "key": ["id"], "sequence": "seq", "deleted": "gone", **more}
        self.sink = Sink.model_validate({"path": self._path, **declared})
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self.generation = Generation(Folder(folder / "state"), info)
        self.truncation: Truncation | None = None
        self.batches = 0
        nothing = spark.createDataFrame([], schema)
        prepare_table(self.sink, Folder(self._path), nothing, self.generation)

    def merge(self, *changes: tuple[Any, ...], again: bool = False) -> None:
        """One micro-batch; ``again`` for one that was written before."""
        self.batches += not again
        rows = self._spark.createDataFrame(list(changes), self._schema)
        merge_changes(
            rows, self.batches, Folder(self._path), self.sink, self.generation, self.truncation
        )

    def files(self) -> list[str]:
        """Paths of the files that the table has."""
        return [file.removeprefix("file://") for file in DeltaTable(self._path).file_uris()]

    def rows(self) -> list[tuple[Any, ...]]:
        table = QueryBuilder().register("t", DeltaTable(self._path))
        found = table.execute("SELECT * FROM t ORDER BY id").read_all()
        names = found.schema.names
        return [tuple(row[name] for name in names) for row in found.to_struct_array().to_pylist()]


def up(key: int, value: str | None, at: int | None) -> Change:
    return (key, value, None if at is None else f"{at:04}", False)


def gone(key: int, at: int) -> Change:
    return (key, None, f"{at:04}", True)


@pytest.mark.parametrize("few", [10_000, 1, 0])
def test_later_changes_win_whatever_the_order_in_which_they_arrive(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    # Who writes the deletes, Spark or Rust, changes nothing.
    monkeypatch.setattr(deletes, "MOST_COLLECTED", few)
    target = Target(tmp_path, spark)
    target.merge(up(1, "snapshot", None), up(2, "snapshot", None), up(3, "snapshot", None))
    # Within a batch, and across batches; a delete and what came before it.
    target.merge(up(1, "b", 12), up(1, "a", 11), gone(2, 13), up(4, "d", 20), gone(4, 21))
    target.merge(up(1, "old", 10), up(2, "old", 9), up(4, "old", 19), up(3, "c", 5))
    assert target.rows() == [(1, "b", "0012"), (3, "c", "0005")]
    # A key that is used again is no older change.
    target.merge(up(2, "again", 14), gone(4, 18))
    # A batch that is tried again after it was written changes nothing.
    target.merge(up(2, "twice", 15), again=True)
    assert target.rows() == [(1, "b", "0012"), (2, "again", "0014"), (3, "c", "0005")]


def test_a_micro_batch_of_which_deletes_or_a_truncate_leave_nothing_is_merged_by_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark, properties={VECTORS: "true"})
    target.truncation = Truncation(target.sink, target.generation)
    target.merge(up(1, "a", 1), gone(2, 9))
    target.merge(up(2, "old", 5))
    assert target.rows() == [(1, "a", "0001")]
    target.merge((None, None, "0010", True))
    target.merge(up(3, "old", 8))
    assert target.rows() == []


def test_deletes_are_not_read_for_changes_that_are_all_later(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(tmp_path, spark)
    target.merge(up(1, "a", 1), gone(2, 9))
    read: list[Any] = []
    without = deletes.Deletes.without_deleted_since

    def counted(*given: Any) -> Any:
        read.append(given)
        return without(*given)

    monkeypatch.setattr(deletes.Deletes, "without_deleted_since", counted)
    target.merge(up(1, "b", 10), gone(3, 11))
    target.merge(gone(1, 12))
    assert not read
    # As late as a delete is no later: other columns of the sequence may decide.
    target.merge(up(4, "d", 12))
    target.merge(up(2, "old", 8))
    assert len(read) == 2
    assert target.rows() == [(4, "d", "0012")]


def test_the_files_of_deletes_stay_few(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "MOST_FILES", 3)
    target = Target(tmp_path, spark)
    for key in range(6):
        target.merge(gone(key, 10 + key))
    (folder,) = (tmp_path / "state").rglob("deletes")
    assert DeltaTable(str(folder)).count() == 6
    assert len(list(folder.glob("*.parquet"))) == 3
    # They are put together again by a batch that has to read them.
    target.merge(gone(7, 17), *(up(key, "old", 5) for key in range(6)), up(6, "new", 20))
    assert len(list(folder.glob("*.parquet"))) == 1
    assert target.rows() == [(6, "new", "0020")]


def test_a_sequence_of_wide_decimals_keeps_its_order(tmp_path: Path, spark: SparkSession) -> None:
    # Above 2^63, and closer to each other than doubles are.
    first = 12_345_678_901_234_567_890
    target = Target(tmp_path, spark, schema=SCHEMA.replace("seq string", "seq decimal(20,0)"))
    target.merge((1, "a", Decimal(first), False), (2, "b", Decimal(first), False))
    target.merge((1, None, Decimal(first + 2), True), (2, None, Decimal(first + 2), True))
    target.merge((1, "old", Decimal(first + 1), False), (2, "new", Decimal(first + 3), False))
    assert target.rows() == [(2, "new", Decimal(first + 3))]


@pytest.mark.parametrize("minute", [10, 70])
def test_a_sequence_of_timestamps_does_not_depend_on_the_time_zone_of_the_driver(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, minute: int
) -> None:
    """In Berlin, the hour from 00:00 UTC on came twice on that day."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        begin = datetime(2024, 10, 27, tzinfo=UTC)
        first, later = begin + timedelta(minutes=minute), begin + timedelta(minutes=minute + 20)
        target = Target(tmp_path, spark, schema=SCHEMA.replace("seq string", "seq timestamp"))
        target.merge((1, "a", begin - timedelta(hours=5), False), (2, None, later, True))
        target.merge((1, None, later, True))
        target.merge((1, "old", first, False), (2, "old", first, False))
        assert target.rows() == []
    finally:
        monkeypatch.undo()
        time.tzset()


def test_soft_deletes_keep_the_row_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    target = Target(tmp_path, spark, deletes="soft")
    target.merge(up(1, "a", 1), gone(2, 9))
    target.merge(gone(1, 5), up(2, "old", 3))
    target.merge(up(1, "old", 4))
    assert target.rows() == [(1, "a", "0005", True), (2, None, "0009", True)]
    target.merge(up(1, "back", 6))
    assert target.rows()[0] == (1, "back", "0006", False)


def test_a_soft_delete_keeps_the_values_of_a_change_in_its_own_micro_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark, deletes="soft")
    target.merge(up(1, "a", 1), up(2, "a", 1), up(3, "late", 8))
    target.merge(
        *(up(1, "b", 2), up(1, "c", 3), gone(1, 4)),
        *(up(2, "b", 2), gone(2, 3), up(2, "back", 4)),
        *(up(3, "old", 2), gone(3, 9)),
        *(up(4, "new", 1), gone(4, 2), gone(4, 3)),
    )
    assert target.rows() == [
        (1, "c", "0004", True),
        (2, "back", "0004", False),
        (3, "late", "0009", True),
        (4, "new", "0003", True),
    ]


@pytest.mark.parametrize("seed", [3])
@pytest.mark.parametrize(
    "properties", [{}, {VECTORS: "true", "delta.autoOptimize.autoCompact": "true"}]
)
def test_any_order_in_any_batches_ends_in_the_same_rows(
    tmp_path: Path, spark: SparkSession, properties: dict[str, str], seed: int
) -> None:
    chance = random.Random(seed)
    changes = [
        gone(key, at) if chance.random() < 0.3 else up(key, f"v{at}", at)
        for at, key in enumerate(chance.choices(range(12), k=120))
    ]
    target = Target(tmp_path, spark, properties=properties)
    arriving = [*changes, *chance.sample(changes, 40)]
    chance.shuffle(arriving)
    while arriving:
        size = chance.randint(30, 60)
        target.merge(*arriving[:size])
        arriving = arriving[size:]
    assert target.rows() == left(changes)


def test_rows_are_marked_as_deleted_where_that_is_declared_and_no_file_is_written_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark, properties={VECTORS: "true"})
    target.merge(*(up(key, "a", 1) for key in range(20)))
    before = set(target.files())
    target.merge(up(3, "b", 2), gone(4, 2))
    assert before < set(target.files())
    assert list((tmp_path / "out").glob("deletion_vector_*.bin"))
    # Readers need to know nothing else.
    assert DeltaTable(str(tmp_path / "out")).protocol().reader_features == ["deletionVectors"]
    others = {key: ("a", "0001") for key in range(20) if key != 4}
    assert target.rows() == [(key, *row) for key, row in {**others, 3: ("b", "0002")}.items()]


def left(changes: Iterable[Change]) -> list[tuple[Any, ...]]:
    """What changes leave that are applied one by one, as they were made."""
    rows: dict[int, tuple[Any, ...]] = {}
    for key, value, at, is_gone in changes:
        rows.pop(key, None)
        if not is_gone:
            rows[key] = (key, value, at)
    return sorted(rows.values())
