"""How far numbers moved between two tables, of each column by itself."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from hybrid_extensions.generations.comparison.distributions import (
    ColumnChange,
    Distribution,
    column_changes,
)

SMALL = Distribution(0, 1, 2.0, 2.0, 3)


def columns(before: dict[str, list[object]], now: dict[str, list[object]]) -> dict[str, str]:
    """The moves of all columns but `id`, of which no row with the same key is said to differ."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA audit")
        for side, values in (("expected", before), ("found", now)):
            connection.register("_rows", pa.table(values))
            connection.execute(f"CREATE TABLE audit.{side} AS SELECT * FROM _rows")
        found = column_changes(connection, {}, ["id"])
        return {each.column: each.moved for each in found}


def test_each_column_has_numbers_of_its_own() -> None:
    before: dict[str, list[object]] = {
        "id": [1, 2, 3],
        "a": [1, 2, 3],
        "b": [10.0, 20.0, None],
        "c": [5, 5, 5],
        "name": ["x", "y", "z"],
    }
    assert columns(before, before) == {}
    now: dict[str, list[object]] = {**before, "b": [10.0, 40.0, 70.0], "name": ["x", "y", "w"]}
    assert columns(before, now) == {
        "b": "nulls 1 to 0, median 15 to 40, mean 15 to 40, highest 20 to 70"
    }
    assert columns(before, {**before, "c": [5, 5, 8]}) == {"c": "mean 5 to 6, highest 5 to 8"}


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        (SMALL, SMALL, ""),
        (SMALL, Distribution(0, 1, 2.0, 2.5, 3), "mean 2 to 2.5"),
        # The median is approximate: alone it says nothing, as little as the seventh digit.
        (SMALL, Distribution(0, 1, 2.5, 2.0000001, 3), ""),
        (SMALL, Distribution(0, 1, 2.5, 2.5, 3), "median 2 to 2.5, mean 2 to 2.5"),
        (SMALL, Distribution(3, None, None, None, None), None),
        # A column that is no number in one of the tables.
        (SMALL, None, ""),
        (None, SMALL, ""),
        (None, None, ""),
    ],
)
def test_only_what_two_looks_at_the_same_rows_agree_on_is_a_move(
    before: Distribution | None, now: Distribution | None, moved: str | None
) -> None:
    if moved is None:
        moved = (
            "nulls 0 to 3, lowest 1 to none, median 2 to none, mean 2 to none, highest 3 to none"
        )
    assert ColumnChange("v", 0, before, now).moved == moved
