"""Times and dates in texts that DuckDB reads in another way than the runs, or not at all.

In topics they mean what Spark's ``stringToTimestamp`` and ``stringToDate`` make of them. Those that
are inside of other values are left to DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa

from sources.common.sql.sql_names import literal, quoted

Rewrite = Callable[[str, bool], str | None]
"""Function that returns a text as DuckDB has to read it, or None if it is bad; the second argument
is whether it is a date."""

# What all of them read alike.
_SURE = (
    r"\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3]):[0-5]\d"
    r"(:[0-5]\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?)?)?"
)
_TIME = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})"
    r"(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(.*))?)?)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{1,2})|(\d\d))?", re.ASCII)
_MOST_MINUTES = 18 * 60
# A time without minutes, which Arrow reads in files.
_HOUR = r"^(\d{4}-\d\d-\d\d[ T]\d\d)(Z|[+-]\d\d(:?\d\d)?)?$"


def rewrite_times(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    column: tuple[str, str],
    field: str,
    rewrite: Rewrite,
) -> None:
    """Replace the values of a column whose texts DuckDB does not read as the runs do.

    Args:
        connection: The audit's database.
        rows: Table of the rows.
        column: Name of the column, and its DuckDB type.
        field: SQL of its JSON value.
        rewrite: Returns what DuckDB has to read in place of a text.
    """
    name, kind = column
    text = f"({field} ->> '$')"
    is_odd = f"json_type({field}) IN ('VARCHAR') AND NOT regexp_full_match({text}, '{_SURE}')"
    found = connection.execute(f"SELECT DISTINCT {text} FROM {rows} WHERE {is_odd}").fetchall()
    if not found:
        return
    texts = [each for (each,) in found]
    others = pa.array([rewrite(each, kind == "DATE") for each in texts], pa.string())
    connection.register("_texts", pa.table({"text": texts, "other": others}))
    connection.execute(
        f"UPDATE {rows} SET {quoted(name)} = TRY_CAST(_texts.other AS {kind}) FROM _texts "
        f"WHERE {is_odd} AND {text} = _texts.text"
    )
    connection.unregister("_texts")


def of_files(text: str, is_date: bool) -> str | None:
    """Return a text of JSON lines: a time may lack its minutes.

    Args:
        text: The text.
        is_date: Whether it is a date.
    """
    return text if is_date else re.sub(_HOUR, r"\1:00\2", text)


def of_topics(text: str, is_date: bool) -> str | None:
    """Return a text of JSON in a topic as Spark reads it; None if it is bad.

    Args:
        text: The text.
        is_date: Whether it is a date.
    """
    plain = text.strip()
    if is_date:
        if (day := _DATE.fullmatch(plain)) is None:
            return None
        year, month, of_month = day.groups()
        return f"{year}-{(month or '1').zfill(2)}-{(of_month or '1').zfill(2)}"
    if (time := _TIME.fullmatch(plain)) is None:
        return None
    year, *parts, fraction, zone = time.groups()
    month, of_month, hour, minute, second = (
        (part or least).zfill(2) for part, least in zip(parts, "11000", strict=True)
    )
    # DuckDB takes 24:00 for the next midnight.
    if int(hour) >= 24:
        return None
    local = f"{year}-{month}-{of_month} {hour}:{minute}:{second}"
    offset = _offset((zone or "").strip(), local)
    return None if offset is None else f"{local}.{(fraction or '0')[:6]}{offset}"


def _offset(zone: str, local: str) -> str | None:
    """Return the offset of a zone as text; None if Spark has no such zone."""
    if zone in ("", "Z", "UTC", "GMT", "UT"):
        return "+00:00"
    if (found := _OFFSET.fullmatch(zone)) is not None:
        sign, hours, minutes = found[1], int(found[2]), int(found[3] or found[4] or 0)
        if minutes >= 60 or hours * 60 + minutes > _MOST_MINUTES:
            return None
        return f"{sign}{hours:02}:{minutes:02}"
    try:
        at = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).strftime("%z")
    except (ValueError, OSError, KeyError):
        return None
    return f"{at[:3]}:{at[3:]}"


def with_minutes(text: str) -> str:
    """Return SQL of a text in which a time without minutes has some.

    Args:
        text: SQL of the text.
    """
    return f"regexp_replace({text}, {literal(_HOUR)}, '\\1:00\\2')"
