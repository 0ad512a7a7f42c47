"""Distributions of numeric columns in the two tables of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from hybrid_extensions.comparison.compare_tables import json_value
from hybrid_extensions.comparison.duckdb_database import FLOATING, INTEGERS, columns_of
from sources.common.sql.sql_names import quoted


@dataclass(frozen=True)
class Distribution:
    """Distribution of a numeric column in one table; None where there are no values.

    Attributes:
        nulls: Rows without a value.
        lowest, median, mean, highest: Of the values; in the form that JSON has for them. The
            median is approximate.
    """

    nulls: int
    lowest: Any
    median: Any
    mean: Any
    highest: Any


@dataclass(frozen=True)
class ColumnChange:
    """Differences in a column outside the key.

    Attributes:
        column: Name of the column.
        changed: Number of rows with the same key that differ in it.
        before, now: Distributions of its values in the table that readers see, and in the other
            one; None for a column that is no number.
    """

    column: str
    changed: int
    before: Distribution | None
    now: Distribution | None

    @property
    def moved(self) -> str:
        """Shift of the distribution, such as ``mean 3.5 to 4``; empty if there is none.

        By six digits, since sums depend on the order of the rows. The median alone moves nothing,
        as two looks at the same rows may find others.
        """
        if self.before is None or self.now is None:
            return ""
        before, now = asdict(self.before), asdict(self.now)
        moved = {
            name: f"{name} {was} to {_number(now[name])}"
            for name in before
            if (was := _number(before[name])) != _number(now[name])
        }
        return "" if moved.keys() <= {"median"} else ", ".join(moved.values())


def column_changes(
    connection: duckdb.DuckDBPyConnection, changed: dict[str, int], key: Sequence[str]
) -> list[ColumnChange]:
    """Return the differences by column outside the key, the most frequent first; empty for none.

    A numeric column without a changed row is among them if its distribution differs, as rows that
    only one table has move it.

    Args:
        connection: A database with the tables ``audit.expected`` and ``audit.found``, which were
            compared.
        changed: Number of rows with the same key that differ, by column.
        key: Columns that identify a row.
    """
    sides = [columns_of(connection, f"audit.{side}") for side in ("expected", "found")]
    numeric = [
        name
        for name in sides[0]
        if name not in key and all(_is_number(side[name]) for side in sides)
    ]
    before, now = (_distributions(connection, side, numeric) for side in ("expected", "found"))
    names = [*changed, *(name for name in numeric if name not in changed)]
    found = [
        ColumnChange(name, changed.get(name, 0), before.get(name), now.get(name)) for name in names
    ]
    return [each for each in found if each.changed or each.moved]


def _distributions(
    connection: duckdb.DuckDBPyConnection, side: str, columns: Sequence[str]
) -> dict[str, Distribution]:
    """Return the distributions of columns of a table, in one pass over it, by name."""
    if not columns:
        return {}
    parts = [
        part
        for name in map(quoted, columns)
        for finite in (f"FILTER (isfinite(CAST({name} AS DOUBLE)))",)
        for part in (
            f"count(*) - count({name})",
            f"min({name})",
            f"approx_quantile(CAST({name} AS DOUBLE), 0.5) {finite}",
            f"avg(CAST({name} AS DOUBLE)) {finite}",
            f"max({name})",
        )
    ]
    try:
        row = connection.execute(f"SELECT {', '.join(parts)} FROM audit.{side}").fetchall()[0]
    except duckdb.OutOfRangeException:
        # The sum of the values is no finite number: a comparison does without.
        return {}
    values = [json_value(value) for value in row]
    return {
        name: Distribution(*values[5 * number : 5 * number + 5])
        for number, name in enumerate(columns)
    }


def _is_number(kind: str) -> bool:
    return kind in FLOATING or kind in INTEGERS or kind.startswith("DECIMAL")


def _number(value: Any) -> str:
    match value:
        case None:
            return "none"
        case float():
            return f"{value:,.6g}"
        case int():
            return f"{value:,}"
    return str(value)
