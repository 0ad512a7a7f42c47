"""Which date patterns (`yyyy-MM-dd`) mean the same to Spark and DuckDB: six fields, separators."""

from __future__ import annotations

import re
from typing import NamedTuple

_FIELDS = {
    "yyyy": ("%Y", "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])", "year"),
    "MM": ("%m", "(0[1-9]|1[0-2])", "month"),
    "dd": ("%d", "(0[1-9]|[12][0-9]|3[01])", "day"),
    "HH": ("%H", "([01][0-9]|2[0-3])", "hour"),
    "mm": ("%M", "([0-5][0-9])", "minute"),
    "ss": ("%S", "([0-5][0-9])", "second"),
}
_TOKEN = re.compile(r"(yyyy|MM|dd|HH|mm|ss)|([-/:., _TZ]*[-/:., _])|'([^']+)'")
_ORDER = ("year", "month", "day", "hour", "minute", "second")
_DEFAULTS = ("1970", "01", "01", "00", "00", "00")


class TimeFormat(NamedTuple):
    """Format of dates and times in DuckDB's terms.

    Attributes:
        strftime: Format of ``strftime``.
        form: Regular expression of the texts, with a group for each field.
        instant: Replacement that makes ``YYYY-MM-DD hh:mm:ss`` of such a text.
    """

    strftime: str
    form: str
    instant: str


def time_format(pattern: str) -> TimeFormat | None:
    """Convert a date pattern of Spark, such as ``yyyy-MM-dd``, to DuckDB's terms.

    None if a part of the pattern is not proven to mean the same, or it has no field: an expression
    with it is then unproven.
    """
    shown = form = ""
    fields: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        if token[1] is not None:
            directive, digits, field = _FIELDS[token[1]]
            if field in fields:
                return None
            fields.append(field)
            shown, form = shown + directive, form + digits
            # A longer run of letters is another field.
            if pattern[at : at + 1] == token[1][-1]:
                return None
            continue
        text = token[2] if token[2] is not None else token[3]
        if re.search("[A-Za-z]", text) and token[3] is None:
            return None
        shown, form = shown + text.replace("%", "%%"), form + re.escape(text)
    if not fields:
        return None
    parts = [
        f"\\{fields.index(field) + 1}" if field in fields else default
        for field, default in zip(_ORDER, _DEFAULTS, strict=True)
    ]
    return TimeFormat(shown, form, "{}-{}-{} {}:{}:{}".format(*parts))
