"""MERGE looks only at files of the target that may hold a key of the micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sources.config.table.sink import Sink
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.by_key import merge_by_key
from spark_jobs.inside.sink.sink import prepare_table

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
FILES = 6
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
KEYS: dict[str, Any] = {
    "bigint": lambda n: n - 3,
    "tinyint": lambda n: n - 3,
    "date": lambda n: date(2024, 1, 1) + timedelta(days=n),
    "timestamp": lambda n: NOON + timedelta(seconds=n),
    "string": lambda n: f"k{n:02}",
}
YEARS = (1, 1500, 1677, 2024, 2262, 9999)


class Target:
    """A table of some files, a key in each."""

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        kind: str,
        key: Callable[[int], Any] | None = None,
    ) -> None:
        self._spark, self._ddl, self._key = spark, f"k {kind}, v int", key or KEYS[kind]
        self.path = folder / "out"
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self._generation = Generation(Folder(folder / "state"), info)
        sink = Sink.model_validate({"path": str(self.path), "mode": "merge", "key": ["k"]})
        nothing = spark.createDataFrame([], self._ddl)
        prepare_table(sink, Folder(self.path), nothing, self._generation)
        self._batches = 0
        for n in range(FILES):
            self.merge((n, n))

    def merge(self, *rows: tuple[int | None, int]) -> None:
        made = [(None if n is None else self._key(n), v) for n, v in rows]
        batch = self._spark.createDataFrame(made, self._ddl).coalesce(1)
        merge_by_key(batch, self._batches, Folder(self.path), ["k"], self._generation)
        self._batches += 1

    def values(self) -> list[int]:
        return sorted(DeltaTable(self.path).to_pyarrow_table()["v"].to_pylist())

    def hide(self, value: int) -> Path:
        """Make the file away that holds a key."""
        actions = DeltaTable(self.path).get_add_actions(flatten=True)
        for path, low in zip(
            actions["path"].to_pylist(), actions["min.v"].to_pylist(), strict=True
        ):
            if low == value:
                file: Path = self.path / path
                return file.rename(file.with_suffix(".hidden"))
        raise AssertionError(value)


@pytest.mark.parametrize("kind", [kind for kind in KEYS if kind != "string"])
def test_files_without_a_key_of_the_batch_are_not_read(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    target = Target(tmp_path, spark, kind)
    hidden = target.hide(2)
    target.merge((3, 30), (5, 50), (8, 80))
    # Whole numbers are named one by one, other keys by the lowest and the highest of them.
    is_named = kind in ("bigint", "tinyint")
    if is_named:
        target.merge((1, 10), (4, 40))
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        target.merge(*([(2, 20)] if is_named else [(1, 10), (4, 40)]))
    hidden.rename(hidden.with_suffix(".parquet"))
    assert target.values() == ([0, 2, 10, 30, 40, 50, 80] if is_named else [0, 1, 2, 4, 30, 50, 80])


def test_a_key_that_is_null_or_text_is_found_wherever_it_is(
    tmp_path: Path, spark: SparkSession
) -> None:
    for kind in ("bigint", "string"):
        target = Target(tmp_path / kind, spark, kind)
        target.merge((None, 100))
        target.merge((None, 200), (2, 20))
        assert target.values() == [0, 1, 3, 4, 5, 20, 200]


def test_times_that_nanoseconds_do_not_hold_are_keys_like_any_other(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark, "timestamp", lambda n: datetime(YEARS[n], 12, 31, tzinfo=UTC))
    for at in range(len(YEARS)):
        target.merge((at, 10 * at))
    target.merge(*((at, 100 + at) for at in range(len(YEARS))))
    assert target.values() == [100, 101, 102, 103, 104, 105]
