"""Casts of texts: usual forms of numbers, booleans, dates, times are proven, others undecided.

Spark and DuckDB accept different texts. Where both agree on the form, both agree on the value.
"""

from __future__ import annotations

import pyarrow as pa

from hybrid_extensions.expressions.values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGERS,
    STRING,
    UnprovenError,
    Value,
    duck,
    result_value,
    spark_name,
    undecided,
)
from sources.common.schema import TIMESTAMP
from sources.common.sql.sql_names import literal

_DIGITS = "[0-9]{1,38}"
_WHOLE = rf" *[+-]?{_DIGITS} *"
_DECIMAL = r" *[+-]?[0-9]{1,30}([.][0-9]{1,30})? *"
_DOUBLE = r" *[+-]?([0-9]{1,30}([.][0-9]{0,30})?|[.][0-9]{1,30})([eE][+-]?[0-9]{1,2})? *"
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DAY = rf"{_YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_MINUTE = "([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = r"(Z| UTC|[+-](0[0-9]|1[0-7]):[0-5][0-9])?"
# Spark reads a zone behind seconds only.
_INSTANT = rf"{DAY}([ T]{_MINUTE}(:[0-5][0-9]([.][0-9]{{1,6}})?{_ZONE})?)?"
# Spark removes white space of all kinds around a value: a text that begins and ends with a visible
# character is what it looks like.
_VISIBLE = r"[\x21-\x7E]([\s\S]*[\x21-\x7E])?"
# Nothing that stands for a date or a time begins with another letter.
_NO_TIME = r"[A-SU-Za-z][\x00-\x7E]*"
_TRUE, _FALSE = "(?i:t|true|y|yes|1)", "(?i:f|false|n|no|0)"


def from_text(value: Value, target: pa.DataType, *, is_try: bool) -> Value:
    """Translate a cast of a text to another type.

    Texts of the usual forms are converted alike by Spark and DuckDB; for any other one the SQL
    fails as undecided (:func:`~hybrid_extensions.expressions.values.undecided`).

    Args:
        value: The text.
        target: The type.
        is_try: Whether a text that is surely no value of the type becomes null instead of an error.

    Raises:
        UnprovenError: Casts of texts to this type are not proven.
    """
    sql, how = value.sql, "TRY_CAST" if is_try else "CAST"
    if target == BINARY:
        return result_value(f"encode({sql})", target, [value])
    if target == BOOLEAN:
        wrong = _wrong(sql, _VISIBLE, is_try=is_try)
        return result_value(
            f"CASE WHEN regexp_full_match({sql}, '{_TRUE}') THEN true "
            f"WHEN regexp_full_match({sql}, '{_FALSE}') THEN false "
            f"WHEN {sql} IS NULL THEN NULL {wrong} END",
            target, [value], fails=True,
        )  # fmt: skip
    if target in INTEGERS:
        form, converted = _WHOLE, f"{how}(trim({sql}, ' ') AS {duck(target)})"
    elif pa.types.is_decimal(target):
        form, converted = _DECIMAL, f"{how}(trim({sql}, ' ') AS {duck(target)})"
    elif target == DOUBLE:
        form, converted = _DOUBLE, f"{how}(trim({sql}, ' ') AS DOUBLE)"
    elif target == DATE:
        form, converted = DAY, f"{how}({sql} AS DATE)"
    elif target == TIMESTAMP:
        form, converted = _INSTANT, to_instant(sql, how)
    else:
        message = f"a cast from {spark_name(STRING)} to {spark_name(target)}"
        raise UnprovenError(message)
    never = _NO_TIME if target in (DATE, TIMESTAMP) else _never_a_number(target)
    is_usual = f"{sql} IS NULL OR regexp_full_match({sql}, {literal(form)})"
    text = f"CASE WHEN {is_usual} THEN {converted} {_wrong(sql, never, is_try=is_try)} END"
    return result_value(text, target, [value], fails=True)


def to_instant(sql: str, how: str) -> str:
    """Return SQL for a text of a usual form as a timestamp; without a zone it is UTC.

    Args:
        sql: SQL of the text.
        how: ``CAST`` or ``TRY_CAST``.
    """
    is_zoned = f"regexp_matches({sql}, {literal('(Z| UTC|[+-][0-9]{2}:[0-9]{2})$')})"
    return (
        f"CASE WHEN length({sql}) > 10 AND {is_zoned} THEN {how}({sql} AS TIMESTAMPTZ) "
        f"ELSE make_timestamptz(epoch_us({how}({sql} AS TIMESTAMP))) END"
    )


def _never_a_number(target: pa.DataType) -> str:
    """Return the form of a text that is surely no number: letters, which doubles may have."""
    if target == DOUBLE:
        return r"[A-CE-HJ-MO-Za-ce-hj-mo-z][\x21-\x7E]*"
    if pa.types.is_decimal(target):
        return r"[A-Za-z][\x21-\x7E]*"
    return _VISIBLE


def _wrong(sql: str, never: str, *, is_try: bool) -> str:
    """Return the rest of a CASE for texts that are not of a usual form.

    Args:
        sql: SQL of the text.
        never: Form of those that are surely no value of the type.
        is_try: Whether these become null.
    """
    rest = f"ELSE {undecided(sql)}"
    if not is_try:
        return rest
    return f"WHEN {sql} = '' OR regexp_full_match({sql}, {literal(never)}) THEN NULL {rest}"
