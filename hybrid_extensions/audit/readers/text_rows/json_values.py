"""Which JSON values fit a type, in topics (Spark's rules) and files: decimals, base64, maps.

In topics they mean what Spark's ``from_json`` makes of them, in files what
docs/values.md says of bad rows. Numbers keep their digits until their type is known.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hybrid_extensions.audit.computed.proven_expressions import NotProvenError
from hybrid_extensions.audit.readers.text_rows.json_texts import Members, Number, Unfit, as_text
from hybrid_extensions.audit.readers.values.time_texts import (
    TIMES_OF_FILES,
    TIMES_OF_TOPICS,
    days_of,
    micros_of,
)

_SHOWN = 200
_WIDE = Context(prec=200)
_INTEGER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_MOST_EXPONENT = 2**31 - 1
_MOST_DIGITS = 38
_ABOVE_FLOATS = 2.0**128
_NOT_FINITE = {
    "NaN": math.nan,
    **dict.fromkeys(["Infinity", "+Infinity", "+INF"], math.inf),
    **dict.fromkeys(["-Infinity", "-INF"], -math.inf),
}
_QUARTETS = re.compile(r"(?:\s*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*\s*")

Read = Callable[[Any], Any]


class JsonDialect:
    """Rules by which the runs read JSON of one kind of source, computed here independently.

    Args:
        is_topic: Whether these are the rules for topics, which Spark reads, or those for files.

    Attributes:
        is_topic: As given.
    """

    def __init__(self, *, is_topic: bool) -> None:
        self.is_topic = is_topic
        self._times = TIMES_OF_TOPICS if is_topic else TIMES_OF_FILES

    def reader(self, kind: pa.DataType) -> Read:
        """Return a function that converts a parsed JSON value to a Python value of an Arrow type.

        The function returns None for null. It raises :class:`Unfit` for a value that makes a run
        report a bad record or row, and :class:`NotProvenError` for a map in a topic's record in
        which a key occurs twice.
        """
        read = self._reader(kind)
        return lambda value: None if value is None else read(value)

    def _reader(self, kind: pa.DataType) -> Read:
        if pa.types.is_list(kind):
            return self._list(kind)
        if pa.types.is_struct(kind):
            return self._struct(kind)
        if pa.types.is_map(kind):
            return self._map(kind)
        leaves: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]] = [
            (pa.types.is_boolean, _boolean),
            (pa.types.is_integer, _integer),
            (pa.types.is_floating, _floating),
            (pa.types.is_decimal, self._decimal),
            (pa.types.is_date, self._date),
            (pa.types.is_timestamp, self._timestamp),
            (pa.types.is_binary, self._binary),
        ]
        read = next((read for is_of, read in leaves if is_of(kind)), self._text)
        return lambda value: read(value, kind)

    def _list(self, kind: pa.DataType) -> Read:
        read = self.reader(kind.value_type)

        def read_list(value: Any) -> Any:
            if not isinstance(value, list):
                raise Unfit
            return [read(each) for each in value]

        return read_list

    def _struct(self, kind: pa.DataType) -> Read:
        fields = {field.name: self.reader(field.type) for field in kind}

        def read_struct(value: Any) -> Any:
            return self.row(value, fields)

        return read_struct

    def row(self, value: Any, fields: dict[str, Read]) -> dict[str, Any]:
        """Return the values of an object's fields by name; those that it lacks are left out.

        Of a duplicate name the last one counts in topics; in files it is refused.

        Args:
            value: A parsed JSON value, which has to be an object.
            fields: A function of :meth:`reader` for each field.

        Raises:
            Unfit: The value is no object, or one of its fields does not fit its type; names it.
        """
        if not isinstance(value, Members):
            raise Unfit
        row: dict[str, Any] = {}
        for name, each in value:
            if name in fields:
                if name in row and not self.is_topic:
                    raise Unfit
                try:
                    row[name] = fields[name](each)
                except Unfit:
                    shown = as_text(each)[:_SHOWN].encode("utf-8", "replace").decode()
                    reason = f"`{name}` does not fit its type: {shown}"
                    raise Unfit(reason) from None
        return row

    def _map(self, kind: pa.DataType) -> Read:
        read = self.reader(kind.item_type)

        def read_map(value: Any) -> Any:
            if not isinstance(value, Members):
                raise Unfit
            entries = [(self._characters(name), read(each)) for name, each in value]
            if len(dict(entries)) < len(entries):
                self._refuse_twice([name for name, _ in entries])
            return entries

        return read_map

    def _refuse_twice(self, names: list[str]) -> None:
        if not self.is_topic:
            raise Unfit
        twice = next(name for name in names if names.count(name) > 1)
        message = (
            f"a map has the name {twice!r} twice: the runs have both values, as Spark reads them, "
            "and DuckDB has no such map"
        )
        raise NotProvenError(message)

    def _decimal(self, value: Any, kind: pa.DataType) -> Decimal:
        if not isinstance(value, str):
            raise Unfit
        text = value.replace(",", "") if self.is_topic and not isinstance(value, Number) else value
        if (found := _DECIMAL.fullmatch(text)) is None or abs(int(found[1] or 0)) > _MOST_EXPONENT:
            raise Unfit
        number, step = Decimal(text), Decimal(1).scaleb(-kind.scale)
        if not self.is_topic and _is_long(number):
            raise Unfit
        if number.adjusted() > kind.precision and number:
            raise Unfit
        if not number or number.adjusted() < -kind.scale - 1:
            fitted = Decimal(0).scaleb(-kind.scale)
        else:
            fitted = number.quantize(step, ROUND_HALF_UP, _WIDE)
        is_exact = self.is_topic or fitted == number
        if not is_exact or len(fitted.as_tuple().digits) > kind.precision:
            raise Unfit
        return fitted

    def _date(self, value: Any, _: pa.DataType) -> int:
        if not isinstance(value, str) or isinstance(value, Number):
            raise Unfit
        return _known(days_of(value, self._times))

    def _timestamp(self, value: Any, _: pa.DataType) -> int:
        if self.is_topic and isinstance(value, Number) and _INTEGER.fullmatch(value):
            seconds = _integer(value, pa.int64())
            # Java's numbers begin again at the other end.
            return (seconds * 10**6 + 2**63) % 2**64 - 2**63
        if not isinstance(value, str) or isinstance(value, Number):
            raise Unfit
        return _known(micros_of(value, self._times))

    def _binary(self, value: Any, _: pa.DataType) -> bytes:
        if not isinstance(value, str) or isinstance(value, Number):
            raise Unfit
        if self.is_topic:
            if _QUARTETS.fullmatch(value) is None:
                raise Unfit
            joined = "".join(value.split())
            quartets = (joined[at : at + 4] for at in range(0, len(joined), 4))
            return b"".join(map(base64.b64decode, quartets))
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise Unfit from None

    def _text(self, value: Any, _: pa.DataType) -> str:
        if isinstance(value, str) and not isinstance(value, Number):
            return self._characters(value)
        if self.is_topic:
            return self._characters(as_text(value))
        if isinstance(value, Number):
            return str(value)
        if isinstance(value, bool):
            return as_text(value)
        raise Unfit

    def _characters(self, text: str) -> str:
        """Return a text; half of a character, which UTF-8 does not have, is `?` in topics."""
        if text.isascii():
            return text
        try:
            return text.encode("utf-8", "replace" if self.is_topic else "strict").decode()
        except UnicodeEncodeError:
            raise Unfit from None


OF_FILES = JsonDialect(is_topic=False)
OF_TOPICS = JsonDialect(is_topic=True)


def _is_long(number: Decimal) -> bool:
    """Return whether a decimal is written with more digits than those of files may have."""
    _, digits, exponent = number.as_tuple()
    after = -exponent if isinstance(exponent, int) else 0
    return after > _MOST_DIGITS or (after > 0 and len(digits) > _MOST_DIGITS)


def _known(value: int | None) -> int:
    if value is None:
        raise Unfit
    return value


def _boolean(value: Any, _: pa.DataType) -> bool:
    if not isinstance(value, bool):
        raise Unfit
    return value


def _integer(value: Any, kind: pa.DataType) -> int:
    if not isinstance(value, Number) or _INTEGER.fullmatch(value) is None:
        raise Unfit
    number, most = int(value), 2 ** (kind.bit_width - 1)
    if not -most <= number < most:
        raise Unfit
    return number


def _floating(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if not isinstance(value, Number):
        raise Unfit
    # An integer has no negative zero.
    number = float(value) + 0.0 if value == "-0" else float(value)
    if kind == pa.float32():
        number = _single(value, number)
    if math.isinf(number):
        raise Unfit
    return number


def _single(text: str, number: float) -> float:
    """Return the ``float`` next to a number by its text: not next to the double next to that."""
    with np.errstate(over="ignore"):
        near = np.float32(number)
        other = np.nextafter(near, np.float32(math.inf if number > float(near) else -math.inf))
    low, high = sorted(_beyond(each) for each in (near, other))
    if math.isinf(number) or (low + high) / 2 != number or Fraction(text) == Fraction(number):
        return float(near)
    chosen = low if Fraction(text) < Fraction(number) else high
    return math.copysign(math.inf, chosen) if abs(chosen) == _ABOVE_FLOATS else chosen


def _beyond(number: np.float32) -> float:
    """Return a ``float`` as a double, with the next power of two for an infinity."""
    return math.copysign(_ABOVE_FLOATS, number) if np.isinf(number) else float(number)
