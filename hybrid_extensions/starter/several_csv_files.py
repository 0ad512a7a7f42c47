"""Types of CSV columns by several files: in one file all postcodes may look like numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hybrid_extensions.starter.file_queries import run_query
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

_BOTH = {
    frozenset({"bigint", "double"}): "double",
    frozenset({"date", "timestamp"}): "timestamp",
}


def wider(kind: str, other: str) -> str:
    """Return the type that holds the values of two types of CSV columns: at worst, text.

    Args:
        kind: Spark SQL type of a column in one file.
        other: Its type in another file.
    """
    return kind if kind == other else _BOTH.get(frozenset({kind, other}), "string")


def without_codes(paths: Sequence[Path], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns; those are texts in which a number begins with 0, such as a postcode.

    As a number it would lose that.

    Args:
        paths: CSV files; of one that can't be read, or lacks a column, nothing is known.
        columns: Names and Spark SQL types of columns.
    """
    kinds = dict(columns)
    for name in [name for name, kind in columns.items() if kind == "bigint"]:
        query = f"SELECT bool_or(regexp_full_match(trim({quoted(name)}), '[+-]?0[0-9]+')) AS code"
        for path in paths:
            with suppress(InputError):
                if run_query(path, "csv", query, text=name)["code"][0].as_py():
                    kinds[name] = "string"
    return kinds
