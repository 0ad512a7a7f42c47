"""Long values that a change leaves as they were: the row keeps them, whatever arrives when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sources.errors import InputError
from tests.e2e.changes.test_changes import Target

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

SCHEMA = (
    "id bigint, state int, body string, tags array<string>, seq string, gone boolean, "
    "kept map<string,string>"
)
Change = tuple[Any, ...]


def target_of(folder: Path, spark: SparkSession, **more: Any) -> Target:
    return Target(folder, spark, SCHEMA, unchanged="kept", **more)


def change(key: int, at: int | None, body: str | None = "", lacks: str = "") -> Change:
    """An update; those of the columns that it lacks are null."""
    values = {"body": body, "tags": None if body is None else [body]}
    lacking = lacks.split()
    seq = None if at is None else f"{at:04}"
    row = [None if name in lacking else value for name, value in values.items()]
    return (key, at, *row, seq, False, dict.fromkeys(lacking) or None)


def gone(key: int, at: int) -> Change:
    return (key, None, None, None, f"{at:04}", True, None)


def test_a_row_keeps_a_value_that_an_update_left_as_it_was(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = target_of(tmp_path, spark)
    target.merge(change(1, None, "long"), change(2, None, "long"), change(3, None, "long"))
    # Of an earlier batch; of the same batch; one column of two.
    target.merge(
        change(1, 5, None, "body tags"),
        change(2, 6, "new"),
        change(2, 7, None, "body tags"),
        change(3, 8, "new", "tags"),
    )
    assert target.rows() == [
        (1, 5, "long", ["long"], "0005", [("body", ""), ("tags", "")]),
        (2, 7, "new", ["new"], "0007", [("body", "0006"), ("tags", "0006")]),
        (3, 8, "new", ["long"], "0008", [("tags", "")]),
    ]
    # A change that has all values again.
    target.merge(change(1, 9, "again"), change(2, 9, None), gone(3, 9))
    assert target.rows() == [
        (1, 9, "again", ["again"], "0009", None),
        (2, 9, None, None, "0009", None),
    ]


def test_a_row_keeps_a_map_that_an_update_left_as_it_was(
    tmp_path: Path, spark: SparkSession
) -> None:
    columns = (
        "id bigint, attrs map<string,string>, seq string, gone boolean, kept map<string,string>"
    )
    target = Target(tmp_path, spark, columns, unchanged="kept")
    target.merge((1, {"a": "b"}, "0001", False, None))
    target.merge((1, None, "0002", False, {"attrs": None}))
    assert target.rows() == [(1, [("a", "b")], "0002", [("attrs", "0001")])]


def test_each_value_is_that_of_its_latest_change_whatever_the_order_of_arrival(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = target_of(tmp_path, spark)
    # Before its row; its row, and what was between the two; a key that is used again.
    target.merge(change(1, 20, None, "body"), gone(2, 10))
    assert target.rows() == [(1, 20, None, None, "0020", [("body", None)])]
    target.merge(change(1, 5, "first"), change(2, 12, None, "body"))
    assert target.rows()[0][2:4] == ("first", None)
    target.merge(change(1, 15, "second"), change(2, 11, "again"))
    # Nothing before them counts any more.
    target.merge(change(1, 8, "late"), change(2, 9, "before it was gone"))
    assert target.rows() == [
        (1, 20, "second", None, "0020", [("body", "0015")]),
        (2, 12, "again", None, "0012", [("body", "0011")]),
    ]


def test_soft_deletes_keep_these_values_too(tmp_path: Path, spark: SparkSession) -> None:
    target = target_of(tmp_path, spark, deletes="soft")
    target.merge(change(1, None, "long"))
    target.merge(change(1, 5, None, "body tags"))
    target.merge(gone(1, 6))
    (row,) = target.rows()
    assert row == (1, 5, "long", ["long"], "0006", True, [("body", ""), ("tags", "")])


def test_a_soft_delete_keeps_these_values_of_its_own_micro_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = target_of(tmp_path, spark, deletes="soft")
    target.merge(change(1, None, "long"))
    target.merge(change(1, 5, "second", "tags"), gone(1, 6))
    (row,) = target.rows()
    assert row[:6] == (1, 5, "second", ["long"], "0006", True)


def test_a_change_whose_key_is_unknown_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    target = target_of(tmp_path, spark)
    with pytest.raises(InputError, match=r"1 change lacks the value of a column of `sink\.key`"):
        target.merge(change(1, 5, None, "id"))


@pytest.mark.parametrize("seed", [5, 6])
def test_any_order_in_any_batches_ends_in_the_same_values(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    made: list[Change] = []
    rows: dict[int, dict[str, Any]] = {}
    for at, key in enumerate(chance.choices(range(8), k=90), 1):
        if key in rows and chance.random() < 0.2:
            made.append(gone(key, at))
            del rows[key]
            continue
        lacks = chance.choice(["", "body", "tags", "body tags"]) if key in rows else ""
        made.append(change(key, at, f"v{at}", lacks))
        row = dict(zip(("id", "state", "body", "tags"), made[-1], strict=False))
        for name in lacks.split():
            row[name] = rows[key][name]
        rows[key] = row
    target = target_of(tmp_path, spark)
    arriving = [*made, *chance.sample(made, 30)]
    chance.shuffle(arriving)
    while arriving:
        size = chance.randint(20, 40)
        target.merge(*arriving[:size])
        arriving = arriving[size:]
    assert [row[:4] for row in target.rows()] == [tuple(rows[key].values()) for key in sorted(rows)]
