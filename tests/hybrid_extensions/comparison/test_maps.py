"""Maps of the same entries are the same, in whatever order a process has them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from hybrid_extensions.comparison.compare_tables import compare
from sources.common.schema import parse_schema

KINDS = {
    "id": "bigint",
    "plain": "map<string,int>",
    "inside": "struct<m:map<string,int>,n:int>",
    "listed": "array<map<string,int>>",
    "nested": "map<string,map<string,int>>",
}


def differing(expected: dict[str, Any], found: dict[str, Any]) -> int:
    """Compare two rows as the audit does."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA audit")
    for name, row in (("expected", expected), ("found", found)):
        connection.register("_rows", pa.Table.from_pylist([row], parse_schema(KINDS)))
        connection.execute(f"CREATE TABLE audit.{name} AS SELECT * FROM _rows")
    return compare(connection, ["id"], 5).counts["different"]


def row(*entries: tuple[str, int | None]) -> dict[str, Any]:
    pairs = [*entries]
    return {
        "id": 1,
        "plain": pairs,
        "inside": {"m": pairs, "n": None},
        "listed": [pairs, None, []],
        "nested": [("b", pairs), ("a", None)],
    }


def test_the_order_of_entries_does_not_count() -> None:
    assert differing(row(("a", 1), ("b", None)), row(("b", None), ("a", 1))) == 0


def test_entries_count() -> None:
    assert differing(row(("a", 1), ("b", 2)), row(("b", 1), ("a", 2))) == 1
    for name in KINDS:
        other = {**row(("a", 1)), name: None} if name != "id" else row()
        assert differing(row(("a", 1)), other) == 1
