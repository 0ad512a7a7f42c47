"""CSV files for `hybrid init`: their dialect, and the names in their header."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_LOOKED_AT = 100_000
"""Rows of a file in which a value of several lines is looked for."""


def dialect_of(path: Path) -> dict[str, str | bool]:
    """Return the options of a CSV file that differ from the defaults, as DuckDB detects them.

    Options are named as in a pipeline's ``csv``. Whether values have line ends is seen in the first
    100,000 rows. Empty for a file of the usual dialect.

    Raises:
        duckdb.Error: DuckDB can't read the file as CSV.
    """
    with duckdb.connect() as connection:
        query = "SELECT Delimiter, Quote, Escape, HasHeader FROM sniff_csv(?)"
        found = connection.execute(query, [str(path)]).fetchone()
    assert found is not None
    usual = {
        "delimiter": (",",),
        "quote": ('"', "(empty)"),
        "escape": ('"', "(empty)"),
        "header": (True,),
    }
    pairs = zip(usual.items(), found, strict=True)
    dialect = {name: value for (name, default), value in pairs if value not in default}
    return {**dialect, "multiline": True} if _has_line_ends(path, dialect) else dialect


def _has_line_ends(path: Path, dialect: dict[str, str | bool]) -> bool:
    """Return whether one of the first rows of a CSV file has a value of several lines."""
    with _rows_of(path, dialect) as rows:
        try:
            return any(
                rows.line_num > number for number, _ in enumerate(islice(rows, _LOOKED_AT), 1)
            )
        except (csv.Error, UnicodeError):
            # What DuckDB could read may still be no text for Python; the plan says what is wrong.
            return False


@contextmanager
def _rows_of(path: Path, dialect: dict[str, str | bool]) -> Iterator[Any]:
    """Yield a reader of the rows of a CSV file of this dialect."""
    with pa.input_stream(str(path), compression="detect") as file:
        yield csv.reader(
            io.TextIOWrapper(file, "utf-8-sig", newline=""),
            delimiter=str(dialect.get("delimiter", ",")),
            quotechar=str(dialect.get("quote", '"')),
            escapechar=str(dialect["escape"]) if "escape" in dialect else None,
        )


def names_in_header(
    path: Path, dialect: dict[str, str | bool], columns: Iterable[str]
) -> dict[str, str | None]:
    """Return the name in the header of each column, by the name that DuckDB gives it.

    DuckDB trims names, numbers those that are there twice, and invents those that are missing; runs
    find columns by the names that the file has.

    Args:
        path: The file.
        dialect: Its options that differ from the defaults.
        columns: The names that DuckDB gives to all its columns, in order.

    Returns:
        None for a column whose name is empty, or is there twice, in whatever case. Without a
        header, or if it has another number of names, DuckDB's names.
    """
    given = list(columns)
    if not dialect.get("header", True):
        return {name: name for name in given}
    with _rows_of(path, dialect) as rows:
        names: list[str] = next((row for row in rows if row), [])
    if len(names) != len(given):
        return {name: name for name in given}
    count = Counter(name.casefold() for name in names)
    return {
        name: own if own and count[own.casefold()] == 1 else None
        for name, own in zip(given, names, strict=True)
    }
