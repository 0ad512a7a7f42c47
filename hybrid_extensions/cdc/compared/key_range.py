"""Ranges of a table's key (500,000 rows) that are compared and repaired: key's types, bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from sources.common.sql.sql_names import literal

RANGE_ROWS = 500_000
"""Rows of a range: they fit in memory, on both sides."""
KEYS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "decimal": Decimal,
    "date": date.fromisoformat,
}
"""Types of the first column of a key of which ranges are compared, and how their texts are read."""


class KeyRange(NamedTuple):
    """Range of keys of a table, as a condition that all supported databases evaluate alike.

    Attributes:
        column: First column of the key, by its name in the target.
        kind: Its Spark SQL type, without parameters; if it is not in :data:`KEYS`, the range has
            all rows.
        first: Lowest value, as text, inclusive; None for no limit.
        until: First value behind the range, as text; None for no limit.
    """

    column: str
    kind: str
    first: str | None = None
    until: str | None = None

    def sql(self, name: str) -> str:
        """Return the condition as SQL, for either database or DuckDB; ``true`` without limits.

        Args:
            name: The column, quoted.
        """
        parts = [
            f"{name} {sign} {self._literal(value)}"
            for sign, value in ((">=", self.first), ("<", self.until))
            if value is not None
        ]
        return " AND ".join(parts) or "true"

    def sql_beyond(self, name: str) -> str:
        """Return the SQL condition of rows above ``first``, exclusive, which must be set.

        Args:
            name: The column, quoted.
        """
        assert self.first is not None
        return f"{name} > {self._literal(self.first)}"

    def _literal(self, value: str) -> str:
        return f"DATE {literal(value)}" if self.kind == "date" else value
