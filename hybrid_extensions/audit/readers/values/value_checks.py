"""Which texts of CSV fit a type, in the audit's SQL: forms, spaces, ranges; rounding is refused.

DuckDB converts some values that the runs refuse. Where it does, the form of the text decides here,
so that audit and runs agree on which rows are bad.
"""

from __future__ import annotations

import pyarrow as pa

from hybrid_extensions.audit.readers.values.time_texts import (
    with_minutes,
)
from hybrid_extensions.comparison.duckdb_database import duckdb_type
from sources.common.sql.sql_names import literal

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3])(:\d\d(:\d\d(\.\d+)?)?)?"
_INSTANT = rf"{_DATE}([ T]{_TIME}(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
# White space around numbers and dates of CSV does not count.
_FORMS = {
    "boolean": "true|True|TRUE|1|false|False|FALSE|0",
    "integer": r"\s*(-?\d+|0[xX][0-9a-fA-F]+)\s*",
    "number": rf"\s*({_NUMBER}|(?i:[+-]?(nan|inf|infinity)))\s*",
    "decimal": rf"\s*{_NUMBER}\s*",
    "date": rf"\s*{_DATE}\s*",
    "instant": _INSTANT,
}


def refused_csv(column: str, kind: pa.DataType) -> str:
    """Return an SQL condition that the text of a CSV value does not fit a type; null fits all.

    Args:
        column: SQL of the text, null for a null value.
        kind: Declared Arrow type.
    """
    family = _family(kind)
    if family == "text":
        return "false"
    form = literal(_FORMS[family])
    mismatch = f"NOT regexp_full_match({column}, {form}) OR {_inexact(column, kind)}"
    return f"({column} IS NOT NULL AND ({mismatch}))"


def _family(kind: pa.DataType) -> str:
    """Return the same name for all types whose values have the same textual form."""
    families = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "number": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "instant": pa.types.is_timestamp,
    }
    return next((family for family, is_of in families.items() if is_of(kind)), "text")


def _inexact(text: str, kind: pa.DataType) -> str:
    """Return an SQL condition that DuckDB can't convert a text to a type, or would round it."""
    if pa.types.is_timestamp(kind):
        text = with_minutes(text)
    cast = f"TRY_CAST(trim({text}) AS {duckdb_type(kind)})"
    if pa.types.is_decimal(kind):
        exact = f"TRY_CAST(trim({text}) AS DECIMAL(38, {38 - kind.precision + kind.scale}))"
        return f"{cast} IS NULL OR {cast} <> {exact}"
    if pa.types.is_floating(kind):
        # A number that is too large is no infinity; the names of one have no digits.
        return f"{cast} IS NULL OR (isinf({cast}) AND regexp_matches({text}, '[0-9]'))"
    return f"{cast} IS NULL"
