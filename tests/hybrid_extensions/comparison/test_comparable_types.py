"""Which types of DuckDB can be compared with each other: those of one group."""

from __future__ import annotations

import duckdb
import pytest

from hybrid_extensions.comparison.compare_tables import compare
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


@pytest.mark.parametrize(
    ("expected", "found", "is_equal"),
    [
        ("0.1::DECIMAL(10,1)", "0.1::DOUBLE", True),
        ("0.1::DECIMAL(38,20)", "0.1::FLOAT", True),
        ("-0.00::DECIMAL(10,2)", "0.0::DOUBLE", True),
        ("NULL::DECIMAL(10,2)", "NULL::DOUBLE", True),
        ("NULL::DECIMAL(10,2)", "'NaN'::DOUBLE", False),
        ("123456789012345.67::DECIMAL(20,2)", "123456789012345.67::DOUBLE", True),
        ("12345678901234567.89::DECIMAL(20,2)", "12345678901234567.89::DOUBLE", False),
        ("12345678901234567.89::DOUBLE", "12345678901234567.89::DECIMAL(20,2)", False),
        ("9007199254740993::BIGINT", "9007199254740992::DOUBLE", False),
    ],
)
def test_a_number_never_equals_one_in_floating_point_that_only_rounds_to_it(
    expected: str, found: str, is_equal: bool
) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA audit")
        for side, value in (("expected", expected), ("found", found)):
            connection.execute(f"CREATE TABLE audit.{side} AS SELECT 1 AS id, {value} AS v")
        assert (compare(connection, ["id"], 5).counts["different"] == 0) is is_equal
