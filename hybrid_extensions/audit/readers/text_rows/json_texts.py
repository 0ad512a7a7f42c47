"""JSON text parsed by Python for the audit: single quotes, nesting, Java's texts of numbers."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from itertools import accumulate
from typing import Any

LEVELS = 1000
"""Levels of nesting that Spark's parser allows."""
_BLANKS = " \t\r\n"
# Texts of either kind of quotes, and the word that Python's parser does not know.
_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"|'((?:[^'\\]|\\.)*)'|-INF\b""", re.DOTALL)


class Unfit(ValueError):  # noqa: N818 - a verdict on data
    """Error: a text is not JSON, or a value does not fit its type."""


class Number(str):
    """Number of JSON as the text that was written, or a word such as ``NaN``."""

    __slots__ = ()


class Members(tuple[tuple[str, Any], ...]):
    """Members of a JSON object in order, as pairs of name and value; a name may occur twice."""

    __slots__ = ()


def members_of(text: str, *, is_topic: bool) -> Members:
    """Parse a text as a JSON object, and return its members.

    Args:
        text: The text of a value. In topics, Spark reads single quotes and ``-INF``, too, and what
            follows the object does not count.
        is_topic: Whether it is a topic's, or a line of a file.

    Raises:
        Unfit: The text is not a JSON object.
    """
    whole = text.strip(_BLANKS)
    try:
        value, end = _decoder().raw_decode(_plain(whole) if is_topic else whole)
    except (ValueError, RecursionError):
        raise Unfit from None
    is_deep = _depth(whole) > LEVELS
    if not isinstance(value, Members) or is_deep or (not is_topic and end < len(whole)):
        raise Unfit
    return value


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=Number
    )


def _plain(text: str) -> str:
    """Return JSON as Python's parser knows it: Spark reads single quotes and ``-INF``, too."""
    if "'" not in text and "-INF" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        token = found[0]
        if token == "-INF":
            return "-Infinity"
        if token.startswith('"'):
            return token.replace("\\'", "'")
        inside = re.sub(r"\\(.)|\"", lambda e: "'" if e[0] == "\\'" else _escaped(e[0]), found[1])
        return f'"{inside}"'

    return _TOKEN.sub(replaced, text)


def _escaped(token: str) -> str:
    return '\\"' if token == '"' else token


def _depth(text: str) -> int:
    """Return how deeply an object is nested."""
    if text.count("[") + text.count("{") <= LEVELS:
        return 0
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    steps = ((each in "[{") - (each in "]}") for each in outside if each in "[{}]")
    return max(accumulate(steps), default=0)


def as_text(value: Any) -> str:
    """Return a parsed value as the text that Spark would make of it for a column of strings.

    The names and order of members are kept, also duplicates.

    Args:
        value: None, a boolean, a text, a :class:`Number`, a list, or :class:`Members`.
    """
    if isinstance(value, Number):
        is_integer = re.fullmatch(r"-?[0-9]+", value) is not None
        return str(int(value)) if is_integer else java_text(float(value))
    if isinstance(value, Members):
        return f"{{{','.join(f'{_quoted(name)}:{as_text(each)}' for name, each in value)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(as_text, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\u00[01][0-9a-f]", lambda found: f"\\u{found[0][2:].upper()}", written)


def java_text(number: float) -> str:
    """Return a number as Java's ``Double.toString`` writes it, such as ``1.0E22`` or ``12.5``.

    NaN and infinities have quotes around them, as in Spark's texts of JSON.
    """
    if math.isnan(number):
        return '"NaN"'
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    minus = "-" if sign else ""
    if not number or not isinstance(exponent, int):
        return f"{minus}0.0"
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    if not 1e-3 <= abs(number) < 1e7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
