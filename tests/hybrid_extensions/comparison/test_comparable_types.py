"""Which types of DuckDB can be compared with each other: those of one group."""

from __future__ import annotations

import pytest

from hybrid_extensions.comparison.compared_tables import comparable_as


@pytest.mark.parametrize(
    ("kinds", "group"),
    [
        (["TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_NS"], "timestamp"),
        (["TINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(12,2)"], "number"),
        (["INTEGER[]", "STRUCT(a INTEGER)[]"], "list"),
        (["VARCHAR"], "VARCHAR"),
        (["DATE"], "DATE"),
        (["STRUCT(a TIMESTAMP)"], "STRUCT"),
    ],
)
def test_types_are_compared_within_their_group(kinds: list[str], group: str) -> None:
    assert {comparable_as(kind) for kind in kinds} == {group}
