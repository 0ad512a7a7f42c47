"""TRUNCATE of the captured table: all older rows of the target go, whatever arrives when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.ordered_changes.spark.truncation import Truncation
from tests.e2e.changes.test_changes import Target, gone, up

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def truncate(at: int) -> tuple[Any, ...]:
    return (None, None, f"{at:04}", True)


def target_of(folder: Path, spark: SparkSession) -> Target:
    target = Target(folder, spark)
    target.truncation = Truncation(target.sink, target.generation)
    return target


def test_older_rows_go_and_newer_ones_stay(tmp_path: Path, spark: SparkSession) -> None:
    target = target_of(tmp_path, spark)
    target.merge(up(1, "snapshot", None), up(2, "a", 5), up(3, "new", 12), up(4, "x", 6))
    # With changes of other partitions, before it and after it.
    target.merge(truncate(10), up(2, "b", 9), up(4, "again", 11), gone(5, 8), truncate(7))
    assert target.rows() == [(3, "new", "0012"), (4, "again", "0011")]
    # A later batch, by another driver, has older changes, too.
    target.truncation = Truncation(target.sink, target.generation)
    target.merge(up(6, "old", 9), up(3, "old", 8), up(7, "new", 13), gone(4, 14))
    assert target.rows() == [(3, "new", "0012"), (7, "new", "0013")]
    # A batch that is tried again changes nothing; one with nothing else empties the table.
    target.merge(truncate(20), again=True)
    assert len(target.rows()) == 2
    target.merge(truncate(21))
    assert target.rows() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_ends_in_what_the_database_has(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    made: list[tuple[Any, ...]] = []
    rows: dict[int, tuple[Any, ...]] = {}
    for at in range(1, 120):
        key, what = chance.randrange(12), chance.random()
        if what < 0.04:
            made.append(truncate(at))
            rows.clear()
        elif what < 0.2:
            made.append(gone(key, at))
            rows.pop(key, None)
        else:
            made.append(up(key, f"v{at}", at))
            rows[key] = (key, f"v{at}", f"{at:04}")
    target = target_of(tmp_path, spark)
    arriving = [*made, *chance.sample(made, 30)]
    chance.shuffle(arriving)
    for start in range(0, len(arriving), 40):
        target.merge(*arriving[start : start + 40])
    assert target.rows() == sorted(rows.values())
