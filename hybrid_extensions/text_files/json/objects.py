"""JSON objects parsed by Python where Arrow fails: maps, dates, numbers as texts, names twice.

Arrow knows no maps, reads dates as numbers only, and no text for a number that is not finite. What
the values mean is what Spark's ``from_json`` makes of them
(https://spark.apache.org/docs/latest/sql-data-sources-json.html).
"""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hybrid_extensions.text_files.json.numbers import TEXT
from sources.common.conversion import (
    BadValue,
    Converter,
    converter,
    short_repr,
    to_arrow_array,
)
from sources.common.schema import leaves
from sources.formats.lines import BYTE_ORDER_MARK, check_utf8

_LEVELS = 1000
SHALLOW_BYTES = 2 * _LEVELS
"""Bytes up to which no object is nested more deeply than Spark's parser allows."""
_TEXT = re.compile(TEXT.encode())
_NOT_FINITE = {
    "NaN": math.nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?Z?)?", re.ASCII
)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?",
    re.ASCII,
)


def parse_objects(block: bytes, columns: pa.Schema) -> pa.Table:
    """Parse a block of JSON lines by Python into one row per line, where Arrow's reader can't.

    Blank lines are left out.

    Args:
        block: Whole lines.
        columns: Columns of the rows; other members are ignored, a missing one is null.

    Raises:
        ArrowInvalid: A line is not exactly one object, or does not fit the columns.
    """
    check_utf8(block)
    values = {field.name: (converter(field.type, _parsing), field.type) for field in columns}
    found: dict[str, list[Any]] = {name: [] for name in values}
    try:
        for line in block.split(b"\n"):
            # In the middle of a file there is one where others were appended to it.
            text = line.removeprefix(BYTE_ORDER_MARK)
            check_depth(text)
            if text.strip(b" \t\r"):
                members = _members(text)
                for name, (value, kind) in values.items():
                    try:
                        found[name].append(value(members.get(name)))
                    except BadValue as error:
                        found[name].append(_with_texts(text, name, kind, error))
        arrays = [to_arrow_array(found[name], kind) for name, (_, kind) in values.items()]
    except BadValue as error:
        raise pa.ArrowInvalid(str(error)) from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise pa.ArrowInvalid(_why(error)) from None
    return pa.table(arrays, schema=columns)


def check_depth(line: bytes) -> None:
    """Refuse a JSON line that is nested more deeply than Spark's parser allows (1,000 levels).

    Raises:
        ArrowInvalid: It is.
    """
    if len(line) <= SHALLOW_BYTES or line.count(b"[") + line.count(b"{") <= _LEVELS:
        return
    data = np.frombuffer(_TEXT.sub(b"", line), np.uint8)
    opened = np.isin(data, [*b"[{"]).astype(np.int64) - np.isin(data, [*b"]}"])
    if opened.cumsum().max(initial=0) > _LEVELS:
        message = f"it is nested more than {_LEVELS:,} levels deep"
        raise pa.ArrowInvalid(message)


def _why(error: Exception) -> str:
    """Return why Python can't read a line, as a clause that does not speak of Python."""
    if isinstance(error, pa.ArrowInvalid):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"it is not a JSON object: {error}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply to be read"
    if isinstance(error, UnicodeError):
        return "it has a text with one half of a pair of surrogates, which is no character"
    return "it has a number with too many digits, or too large an exponent, to be read"


class _Written(str):
    """Number as the text that was written."""

    __slots__ = ()


def _with_texts(line: bytes, name: str, kind: pa.DataType, error: BadValue) -> Any:
    """Return a member in which numbers and booleans in the place of texts are what was written.

    Raises:
        BadValue: The given error: it does not fit its column all the same.
    """
    if not any(map(pa.types.is_string, leaves(kind))):
        raise error
    try:
        return converter(kind, _reading)(_members(line, _Written)[name])
    except BadValue:
        raise error from None


def _reading(kind: pa.DataType) -> Converter:
    """Return what makes a value of a type of what JSON has in its place, as it is written."""
    if pa.types.is_string(kind):
        return _text
    parse = _parsing(kind)
    return lambda value: parse(_plain(value) if isinstance(value, _Written) else value)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return json.dumps(value)
    return str(value) if isinstance(value, _Written) else value


def _plain(written: str) -> Any:
    return json.loads(written, parse_float=Decimal)


def _members(line: bytes, number: type[str] | None = None) -> dict[str, Any]:
    if line.lstrip(b" \t").startswith(b"["):
        reason = "it begins a JSON array; each object has to be in a line of its own"
        raise BadValue(reason)
    # Given bytes, the parser would guess the encoding.
    members = json.loads(
        line.decode(),
        parse_int=number,
        parse_float=number or Decimal,
        parse_constant=number,
        object_pairs_hook=_once,
    )
    if not isinstance(members, dict):
        reason = "it is not a JSON object"
        raise BadValue(reason)
    return members


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        reason = f"the member {short_repr(twice)} is there twice"
        raise BadValue(reason)
    return members


def _parsing(kind: pa.DataType) -> Converter:
    """Return what makes a value of a type of what JSON has in its place."""
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_date(kind):
        return _day
    if pa.types.is_timestamp(kind):
        return _instant
    if pa.types.is_binary(kind):
        return _bytes
    return lambda value: value


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        number = float(value)
        # An infinite one is too large.
        return value if math.isinf(number) else number
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _decimal(value: Any) -> Any:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return Decimal(value) if is_number else value


def _day(value: Any) -> Any:
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else date.fromisoformat(found[1])


def _instant(value: Any) -> Any:
    is_time = isinstance(value, str) and _TIME.fullmatch(value)
    return datetime.fromisoformat(value) if is_time else value


def _bytes(value: Any) -> Any:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value
