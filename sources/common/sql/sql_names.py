"""Names and texts in the SQL of DuckDB and PostgreSQL, and names in that of Spark."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    """Return a name in double quotes for DuckDB's or PostgreSQL's SQL; any text is allowed."""
    return '"' + name.replace('"', '""') + '"'


def in_backticks(name: str) -> str:
    """Return a name in backticks for Spark's SQL; any text is a valid name."""
    return "`" + name.replace("`", "``") + "`"


def column_list(names: Iterable[str]) -> str:
    """Return names, each in double quotes, separated by commas: a select list or column list.

    Empty without names.
    """
    return ", ".join(map(quoted, names))


def literal(text: str) -> str:
    """Return a text in single quotes, as a literal of DuckDB's and PostgreSQL's SQL.

    Spark would take a backslash in it for an escape.
    """
    return "'" + text.replace("'", "''") + "'"
