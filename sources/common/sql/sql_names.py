"""Names and texts in the SQL of DuckDB and PostgreSQL, and names in that of Spark."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    """Return a name in double quotes, as SQL takes any name."""
    return '"' + name.replace('"', '""') + '"'


def in_backticks(name: str) -> str:
    """Return a name in backticks, as Spark's SQL and its functions of columns accept any name."""
    return "`" + name.replace("`", "``") + "`"


def column_list(names: Iterable[str]) -> str:
    """Return names as a list of SQL, each in double quotes."""
    return ", ".join(map(quoted, names))


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
