"""What a CSV file tells besides its values: its dialect, and the names in its header."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa


def dialect_of(path: Path) -> dict[str, str | bool]:
    """Return the options of a CSV file that differ from the defaults, as DuckDB detects them.

    Options are named as in a pipeline's ``csv``.

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
    return {name: value for (name, default), value in pairs if value not in default}


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
    with pa.input_stream(str(path), compression="detect") as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        rows = csv.reader(
            text,
            delimiter=str(dialect.get("delimiter", ",")),
            quotechar=str(dialect.get("quote", '"')),
            escapechar=str(dialect["escape"]) if "escape" in dialect else None,
        )
        names = next((row for row in rows if row), [])
    if len(names) != len(given):
        return {name: name for name in given}
    count = Counter(name.casefold() for name in names)
    return {
        name: own if own and count[own.casefold()] == 1 else None
        for name, own in zip(given, names, strict=True)
    }
