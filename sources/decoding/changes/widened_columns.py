"""Widened columns of a captured table: those with a new type that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.schema import parse_type
from sources.common.widening import is_wider


def is_widened(before: str, now: str) -> bool:
    """Return whether a type holds every value of another type exactly.

    True, too, if both are the same.

    Args:
        before: Spark SQL type of before.
        now: Spark SQL type of now.

    Raises:
        ValueError: A type is unknown.
    """
    return is_wider(parse_type(before), parse_type(now))


def with_widened_types(columns: Mapping[str, str], types: Mapping[str, str]) -> dict[str, str]:
    """Return a captured table's columns with the types that the database has widened since.

    All columns are kept, in order. Nothing is checked: a name in ``types`` that is no column is
    ignored, and that a type is wider was checked before.

    Args:
        columns: Spark SQL type by column name.
        types: Spark SQL type of each column that was widened, by name; others keep theirs.
    """
    return {name: types.get(name, kind) for name, kind in columns.items()}
