"""Detection of the event time, for ``hybrid init``: the only time, or integers since 1970."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hybrid_extensions.starter.file_queries import run_query
from hybrid_extensions.starter.nested import fields_of_type
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=366)
# Functions of `select` by the number of their units in a second.
_UNITS = {1: "timestamp_seconds", 1_000: "timestamp_millis", 1_000_000: "timestamp_micros"}
# Texts that a plan casts as Spark does (`hybrid_extensions.expressions`).
_TIME = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?(Z| UTC|[+-](0\d|1[0-7]):\d\d)?)?)?"
# Columns in which tools that copy tables note what they did, and when.
OF_LOADER = re.compile(r"_(airbyte|ab|fivetran|sdc|dlt|hoodie)_", re.IGNORECASE)
LIKELY_KEY = re.compile(r"(^|_)(id|key|no|nr|number|uuid|code)$|id$")
INTEGERS = ("int", "bigint")


def find_event_time(path: Path, form: str, columns: Mapping[str, str]) -> str:
    """Return the only column that has the type of an event time, or values of one.

    Columns that loaders add, and integers that are named as a key, do not count.

    Args:
        path: The file.
        form: Its format.
        columns: Names and Spark SQL types of its columns.

    Raises:
        InputError: None or several have it, or the file can't be read.
    """
    own = {name: kind for name, kind in columns.items() if not OF_LOADER.match(name)}
    times = [name for name, kind in own.items() if kind == "timestamp"]
    # Numbers of orders are times of some year by chance.
    numbers = [
        name
        for name, kind in own.items()
        if kind in INTEGERS and not times and not LIKELY_KEY.search(name.lower())
    ]
    times += [name for name in numbers if _unit_of(path, form, name) is not None]
    if not times and form != "parquet":
        times = [name for name, kind in own.items() if _are_times(path, form, name, kind)]
    if len(times) == 1:
        return times[0]
    number = f"{len(times)} columns" if times else "no column"
    message = (
        f"The event time can't be detected: {number} of file {path} {'have' if times else 'has'} "
        "the type timestamp, or the time since 1970 as integers, and it has to be one; those of "
        "loaders (such as `_airbyte_…`), and integers that are named as a key, do not count."
    )
    choice = f"one of {', '.join(times or fields_of_type(columns, 'timestamp') or columns)}"
    raise InputError(message, f"Name the column with `--event-time`: {choice}.", file=str(path))


def instant_of(path: Path, form: str, name: str, kind: str) -> str:
    """Return the Spark SQL that turns an event time that is no timestamp into one.

    Args:
        path: The file.
        form: Its format.
        name: Name of the event-time column.
        kind: Its Spark SQL type.

    Raises:
        InputError: Its values are no times, or the file can't be read.
    """
    found = _unit_of(path, form, name) if kind in INTEGERS else None
    if found is not None:
        return f"{found}({{}})"
    if form != "parquet" and (kind == "date" or _are_times(path, form, name, kind)):
        return "CAST({} AS TIMESTAMP)"
    message = (
        f"Column `{name}` of file {path} is no event time: its type is {kind}, and its values are "
        "no seconds, milliseconds or microseconds since 1970 of the years from 1990 on."
    )
    made = {
        "string": f"to_timestamp({name}, 'MM/dd/yyyy HH:mm:ss')",
        "double": f"timestamp_millis(CAST({name} * 1000 AS BIGINT))",
        "bigint": f"timestamp_micros({name} div 1000)",
    }.get(kind, name)
    hint = (
        "Name another column with `--event-time`, or write the pipeline's file by hand with a "
        f"`select` that makes a timestamp of `{name}`, such as `CAST({made} AS TIMESTAMP)` "
        "(docs/sources.md)."
    )
    if form == "parquet":
        hint = (
            "Name another column with `--event-time`, or write the files again with a timestamp: "
            "the event time of Parquet is one, or integers since 1970 (docs/sources.md)."
        )
    raise InputError(message, hint, file=str(path), column=name)


def _unit_of(path: Path, form: str, name: str) -> str | None:
    """Return the function by which all integers of a column are plausible times; None if none."""
    column = quoted(name)
    low, high = (
        found[0].as_py() for found in run_query(path, form, f"SELECT min({column}), max({column})")
    )
    if low is None:
        return None
    latest = datetime.now(UTC) + _AHEAD
    for units, function in _UNITS.items():
        begin, end = _EARLIEST.timestamp() * units, latest.timestamp() * units
        if begin <= int(low) <= int(high) <= end:
            return function
    return None


def _are_times(path: Path, form: str, name: str, kind: str) -> bool:
    """Return whether all values of a column of texts are times that Spark casts, as with a zone."""
    if kind != "string":
        return False
    column = f"CAST({quoted(name)} AS VARCHAR)"
    cast = f"TRY_CAST({column} AS TIMESTAMPTZ)"
    is_usual = f"regexp_full_match({column}, '{_TIME}')"
    query = f"SELECT count({column}), count(IF({is_usual}, {cast}, NULL))"
    known, times = (found[0].as_py() for found in run_query(path, form, query, text=name))
    return bool(known) and known == times
