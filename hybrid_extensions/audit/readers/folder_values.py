"""Partition values in the audit: folder names (`day=…`, percent escapes, null) joined to rows.

Not by DuckDB's own partitioning by folders, which refuses files whose folders have other columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

from sources.common.sql.sql_names import literal, quoted

_PATH = "_path"
_NULL = "__HIVE_DEFAULT_PARTITION__"


def options(names: Collection[str]) -> str:
    """Return SQL options for a call of DuckDB's reader of files, as :func:`with_values` needs them.

    They switch DuckDB's own partitioning off, and add the column of the file's path.

    Args:
        names: Names of the partition columns; without any, the path is not added.
    """
    return f"hive_partitioning = false{f', filename = {literal(_PATH)}' if names else ''}"


def values_in(path: str, names: Iterable[str]) -> dict[str, str | None]:
    """Return the partition values of a file as text, from folder names like ``day=2024-01-01``.

    Percent escapes are decoded. Of a name that several folders have, the innermost one counts.

    Args:
        path: Path of the file.
        names: Names of the columns.

    Returns:
        By column, its text; None for ``__HIVE_DEFAULT_PARTITION__``, which is null.

    Raises:
        KeyError: The path has no folder for one of them; names are case-sensitive.
    """
    pairs = (part.split("=", 1) for part in Path(path).parent.parts if "=" in part)
    texts = {_decoded(name): None if text == _NULL else _decoded(text) for name, text in pairs}
    return {name: texts[name] for name in names}


def _decoded(text: str) -> str:
    """Return a text whose percent escapes are bytes of UTF-8, or else each a character."""
    octets = unquote_to_bytes(text)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return re.sub("%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)


def with_values(reader: str, paths: Sequence[str], names: Sequence[str]) -> str:
    """Return a query, in parentheses, for the rows of files with their partition values.

    A column inside the files that has the name of a partition column is left out, as by Spark.
    Without partition columns the query is the reader itself. With partition columns, at least one
    path is needed.

    Args:
        reader: Call of DuckDB's reader for the files, with :func:`options`.
        paths: Paths of the files.
        names: Names of the partition columns.
    """
    if not names:
        return reader
    rows = []
    for path in paths:
        texts = values_in(path, names).values()
        values = ["NULL" if text is None else literal(text) for text in texts]
        rows.append(f"({', '.join([literal(path), *values])})")
    columns = ", ".join(map(quoted, [_PATH, *names]))
    inside = ", ".join(map(literal, names))
    return (
        f"(SELECT r.* EXCLUDE ({_PATH}), p.* EXCLUDE ({_PATH}) FROM "
        f"(SELECT COLUMNS(lambda c: c NOT IN ({inside})) FROM {reader}) r JOIN "
        f"(VALUES {', '.join(rows)}) p({columns}) ON r.{_PATH} = p.{_PATH})"
    )
