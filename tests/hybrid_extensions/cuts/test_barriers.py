"""A micro-batch that a barrier divides: two commits, and nothing lost or doubled by a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession

from hybrid_extensions.cuts.barrier import Barrier, read_barrier, read_crossing, write_barrier
from hybrid_extensions.cuts.spark import Barriers
from hybrid_extensions.ordered_changes.spark.newest_change import merge_changes
from sources.config.table.sink import Sink
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.merge_strategy import Merging
from spark_jobs.inside.sink.sink import prepare_table
from spark_jobs.table.ownership.target_guard import TargetGuard
from tests.e2e.changes.test_changes import SCHEMA, Change, gone, up

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
LATER_MS = 1 << 45
BARRIERS = "hybrid_extensions.cuts.spark"


class Killed(BaseException):
    """The driver ends here."""


class Driver:
    """A query that merges micro-batches into a target; ``restart`` begins another one."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._spark = spark
        self.dies_behind = False
        self.path = str(folder / "out")
        self._sink = Sink.model_validate(
            {
                "path": self.path,
                "mode": "merge",
                "key": ["id"],
                "sequence": "seq",
                "deleted": "gone",
            }
        )
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self.generation = Generation(Folder(folder / "state"), info)
        self._guard: TargetGuard
        self._barriers: Barriers
        self.restart()

    def restart(self) -> None:
        target, nothing = Folder(self.path), self._spark.createDataFrame([], SCHEMA)
        self._guard = prepare_table(self._sink, target, nothing, self.generation)
        self._barriers = Barriers(Merging(self._sink, target, self.generation, self._merge_or_die))

    def merge(self, batch: int, *changes: Change) -> None:
        # As Spark writes them, around the micro-batch.
        self.generation.checkpoint.replace_bytes(f"offsets/{batch}", b"v1\n{}\n-")
        rows = self._spark.createDataFrame(list(changes), SCHEMA)
        self._barriers.batch(rows, batch, self._guard)
        self.generation.checkpoint.replace_bytes(f"commits/{batch}", b"v1\n{}")

    def _merge_or_die(
        self, batch: DataFrame, batch_id: int, *, application: str | None = None
    ) -> None:
        if self.dies_behind and application is None:
            raise Killed
        merge_changes(
            batch,
            batch_id,
            Folder(self.path),
            self._sink,
            self.generation,
            application=application,
        )

    def barrier(self, number: int, position: str | None = "0010", **more: Any) -> None:
        values = {"number": number, "is_open": True, "until_ms": LATER_MS, "position": position}
        write_barrier(self.generation, Barrier(**{**values, **more}))

    def rows(self, version: int | None = None) -> list[tuple[int, str]]:
        table = DeltaTable(self.path, version=version)
        found = QueryBuilder().register("t", table).execute("SELECT id, v FROM t ORDER BY id")
        return [(each["id"], each["v"]) for each in found.read_all().to_struct_array().to_pylist()]


@pytest.fixture
def driver(tmp_path: Path, spark: SparkSession) -> Driver:
    made = Driver(tmp_path, spark)
    made.merge(0, up(1, "snapshot", None), up(2, "snapshot", None))
    return made


def test_the_version_of_the_cut_holds_what_is_before_the_barrier(driver: Driver) -> None:
    driver.barrier(1)
    driver.merge(1, up(1, "before", 9), up(1, "behind", 10), gone(2, 11), up(3, "new", 5))
    crossing = read_crossing(driver.generation, 1)
    assert crossing is not None
    assert driver.rows(crossing.table_version) == [(1, "before"), (2, "snapshot"), (3, "new")]
    assert driver.rows() == [(1, "behind"), (3, "new")]
    # Nothing else is divided, and what comes too late is no part of a cut.
    driver.merge(2, up(3, "later", 12))
    assert read_crossing(driver.generation, 1) == crossing
    driver.merge(3, up(4, "late", 6))
    late = read_crossing(driver.generation, 1)
    assert late is not None
    assert late.table_version is None
    assert "came after" in str(late.failure)
    driver.barrier(2, "0015")
    driver.merge(4, up(3, "behind", 16))
    crossing = read_crossing(driver.generation, 2)
    assert crossing is not None
    assert driver.rows(crossing.table_version) == [(1, "behind"), (3, "later"), (4, "late")]


@pytest.mark.parametrize("killed_at", ["answer", "rest"])
def test_a_driver_that_is_killed_in_between_neither_loses_nor_doubles_rows(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    driver.barrier(1)
    batch = (
        up(1, "before", 9),
        up(1, "behind", 10),
        up(2, "before", 8),
        gone(2, 9),
        up(5, "x", 11),
    )

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        if killed_at == "answer":
            patched.setattr(f"{BARRIERS}.write_crossing", die)
        else:
            driver.dies_behind = True
        with pytest.raises(Killed):
            driver.merge(1, *batch)
    assert driver.rows() == [(1, "before")]
    answered = read_crossing(driver.generation, 1)
    driver.dies_behind = False
    driver.restart()
    driver.merge(1, *batch)
    assert driver.rows() == [(1, "behind"), (5, "x")]
    crossing = read_crossing(driver.generation, 1)
    assert crossing is not None
    if killed_at == "rest":
        # The version was recorded, and stays the one of the cut.
        assert crossing == answered
        assert driver.rows(crossing.table_version) == [(1, "before")]
    else:
        assert crossing.table_version is None
    # The same number divides nothing any more; the next one does.
    driver.merge(2, up(6, "y", 12))
    driver.barrier(2, "0014")
    driver.merge(3, up(6, "before", 13), up(6, "behind", 14))
    crossing = read_crossing(driver.generation, 2)
    assert crossing is not None
    assert (6, "before") in driver.rows(crossing.table_version)
    assert (6, "behind") in driver.rows()


def test_a_barrier_without_a_position_or_out_of_time_is_given_up(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BARRIERS}.PATIENCE_S", 0.1)
    driver.barrier(1, None)
    driver.merge(1, up(1, "a", 20))
    driver.barrier(2, until_ms=1)
    driver.merge(2, up(1, "b", 21))
    second = read_crossing(driver.generation, 2)
    assert second is not None
    assert second.failure == "its time was over"
    driver.barrier(3, is_open=False)
    driver.merge(3, up(1, "c", 22))
    assert read_crossing(driver.generation, 3) is None
    assert driver.rows() == [(1, "c"), (2, "snapshot")]
    newest = read_barrier(driver.generation)
    assert newest is not None
    assert newest.number == 3
