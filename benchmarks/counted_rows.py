"""Comparison of a Delta table with a database, by code that shares nothing with the product.

The rows come from a plain driver, the table's from deltalake. Python compares them, value by value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable

_SHOWN = 5


class Counted(NamedTuple):
    """Rows of a table on both sides.

    Attributes:
        rows: Rows of the database.
        found: Rows of the Delta table.
        different: Rows that one of them has more often than the other; a row that differs in one
            column counts twice.
        examples: A few of these rows.
    """

    rows: int
    found: int
    different: int
    examples: list[str]


def count_differences(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], path: Path
) -> Counted:
    """Compare all columns of all rows of a database table with a Delta table.

    Args:
        rows: Its rows, by column.
        columns: Its columns, in the order of the table.
        path: Folder of the Delta table, which may have further columns.

    Raises:
        KeyError: The Delta table lacks a column.
    """
    there = Counter(tuple(_plain(row[name]) for name in columns) for row in rows)
    table = DeltaTable(path).to_pyarrow_table()
    values = [table.column(name).to_pylist() for name in columns]
    here = Counter(tuple(map(_plain, row)) for row in zip(*values, strict=True))
    examples = [
        f"only in the {side}: {row}"
        for side, more in (("database", there - here), ("Delta table", here - there))
        for row in list(more)[:_SHOWN]
    ]
    different = (there - here).total() + (here - there).total()
    return Counted(there.total(), here.total(), different, examples)


def _plain(value: Any) -> Any:
    """Return a value as it is the same from both sides: times without a zone, JSON as its value."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.dumps(json.loads(value), sort_keys=True)
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
