"""Detection of the key, for ``hybrid init``: ``id``, or one or two columns unique in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from hybrid_extensions.starter.event_times import INTEGERS, LIKELY_KEY, OF_LOADER
from hybrid_extensions.starter.file_queries import run_query
from sources.common.counting import counted
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

_WHOLE_DECIMAL = re.compile(r"decimal\(\d+,0\)")
_MOST_KEYS = 12


def find_key(path: Path, form: str, columns: Mapping[str, str], at: str) -> tuple[list[str], str]:
    """Return the columns that identify a row, and why: `id`, or else what is unique in the file.

    The reason is a sentence for people to check; empty if `id` is unique.

    Args:
        path: The file.
        form: Its format.
        columns: Names and Spark SQL types of its columns.
        at: Name of the event-time column.

    Raises:
        InputError: No one or two columns are unique, or the file can't be read.
    """
    if "id" in columns:
        return ["id"], _why_check_id(path, form)
    kinds = (*INTEGERS, "string", "date")
    named = [
        name
        for name, kind in columns.items()
        if (kind in kinds or _WHOLE_DECIMAL.fullmatch(kind))
        and name != at
        and not OF_LOADER.match(name)
    ]
    # By their names first, as in a small file much is unique by chance.
    likely = sorted(named[:_MOST_KEYS], key=lambda name: not LIKELY_KEY.search(name.lower()))
    sets = [[name] for name in likely] + [[name, at] for name in likely]
    for each in [*sets, *map(list, combinations(likely, 2))]:
        rows = _rows_if_unique(path, form, each)
        if rows is not None:
            why = (
                f"The key is [{', '.join(each)}], as its value is another one in each of "
                f"{counted(rows, 'row')} of {path.name}. Check that it is so in all files."
            )
            return each, why
    message = (
        f"The key can't be detected: file {path} has no column `id`, and of its columns of "
        f"integers, texts and dates (the first {_MOST_KEYS}) no one or two have values that are "
        "unique in it."
    )
    hint = f"Name each column that identifies a row with `--key`: of {', '.join(columns)}."
    raise InputError(message, hint, file=str(path))


def _why_check_id(path: Path, form: str) -> str:
    rows, distinct = _rows_and_values(path, form, ["id"])
    if rows == distinct:
        return ""
    return (
        f"The key is [id], which has {counted(distinct, 'value')} in {counted(rows, 'row')} of "
        f"{path.name}. If these are versions of rows, declare `mode: merge`; if they are different "
        "rows, name the columns that identify one with `--key`."
    )


def _rows_if_unique(path: Path, form: str, columns: Sequence[str]) -> int | None:
    """Return the number of rows if each has its own values of some columns, none of them null."""
    rows, distinct = _rows_and_values(path, form, columns)
    return rows if rows == distinct and rows > 1 else None


def _rows_and_values(path: Path, form: str, columns: Sequence[str]) -> tuple[int, int]:
    """Return the number of rows, and of different values of some columns without a null."""
    names = ", ".join(map(quoted, columns))
    known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
    query = f"SELECT count(*), count(DISTINCT ({names})) FILTER ({known})"
    rows, distinct = (found[0].as_py() for found in run_query(path, form, query))
    return rows, distinct
