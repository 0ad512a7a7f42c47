"""Exact conversion of parsed Python values to Arrow types: what would be cut off is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa

from sources.common.schema import type_name
from sources.common.times import EPOCH

Converter = Callable[[Any], Any]
"""Function from a parsed value to the one that Arrow takes; it raises :class:`BadValue`."""


class Nanos(int):
    """Integer of nanoseconds since 1970; a timestamp if it is whole microseconds, else bad."""


_SHORT_CHARACTERS = 60
_MICROSECOND = timedelta(microseconds=1)
_INTEGERS = (int, Nanos)
# From here on numbers round to infinity as `float`; the largest one's digits are 3.4028235e38.
_ABOVE_FLOATS = 2.0**128 - 2.0**103
# Wide enough for any number of Spark's decimals times any scale.
_EXACT = Context(prec=128, traps=[Inexact, InvalidOperation])


class BadValue(ValueError):  # noqa: N818 - a verdict on data, as `KeyError` is not
    """Error that a record's value can't be decoded; its text is the reason, a phrase after a colon.

    Caught where bad records are handled (``on_bad_record``).
    """


def converter(
    kind: pa.DataType, parsing: Callable[[pa.DataType], Converter] | None = None
) -> Converter:
    """Return a function that converts one decoded Python value exactly to a column type, for Arrow.

    Its result is what ``pyarrow.array`` takes; None stays None. It converts only without loss (an
    integer to a double, a time without zone to UTC), and raises :class:`BadValue` for a value of
    another type, or one that would lose something. Only floating point is rounded: a number becomes
    the nearest float or double, and one beyond the largest is refused. Truth values are no
    integers. Of a mapping for a struct, fields without a value are None, and unknown ones are left
    out.

    Args:
        kind: A type that Spark has (:func:`sources.common.schema.normalize`), nested ones included.
        parsing: Returns, for a primitive type, a function that is applied to a value first, such as
            one from a text to a date; that may raise ValueError. None to convert values as they
            are.
    """
    name = type_name(kind)
    exact = _scalar(kind)
    if exact is None:
        exact = _nested(kind, parsing)
    elif parsing is not None:
        exact = _after(parsing(kind), exact)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return exact(value)
        except _TypeMismatch as error:
            why = f": {error}" if str(error) else ""
            reason = f"{short_repr(value)} is not a valid {name}{why}"
            raise BadValue(reason) from None

    return convert


def to_arrow_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an Arrow array of converted values, in their order; empty without values.

    Args:
        values: Results of the :func:`converter` of this type; None becomes null.
        kind: The type of the array.

    Raises:
        pyarrow.ArrowException: A value was not converted for this type.
    """
    if pa.types.is_timestamp(kind):
        # Arrow looks up the zone of each value, which takes five times as long.
        values = [
            None if instant is None else (instant - EPOCH) // _MICROSECOND for instant in values
        ]
    return pa.array(values, kind)


def short_repr(value: Any) -> str:
    """Return a value as text for a message; from 61 characters on, 60 of them and ``…``.

    Texts and bytes are in quotes. Without names of Python's types, except inside of nested values.
    """
    other = str(value) if isinstance(value, date | Decimal) else repr(value)
    text = json.dumps(value) if value is None or isinstance(value, bool) else other
    return text if len(text) <= _SHORT_CHARACTERS else f"{text[:_SHORT_CHARACTERS]}…"


class _TypeMismatch(Exception):  # noqa: N818
    """Signal to :func:`converter`, which knows the whole value, that a part does not fit."""


def _scalar(kind: pa.DataType) -> Converter | None:
    """Return the conversion to a type without parts; None for a nested type."""
    if pa.types.is_integer(kind):
        return _integer(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
    if pa.types.is_floating(kind):
        return _floating(_ABOVE_FLOATS if kind.bit_width == 32 else math.inf)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    return {
        pa.bool_(): _exactly(bool),
        pa.string(): _string,
        pa.binary(): _exactly(bytes),
        pa.date32(): _exactly(date),
        pa.timestamp("us", tz="UTC"): _instant,
    }.get(kind)


def _after(parse: Converter, exact: Converter) -> Converter:
    def convert(value: Any) -> Any:
        try:
            parsed = parse(value)
        except ValueError as error:
            raise _TypeMismatch(str(error)) from None
        return exact(parsed)

    return convert


def _exactly(required: type) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not required:
            raise _TypeMismatch
        return value

    return convert


def _integer(low: int, above: int) -> Converter:
    def convert(value: Any) -> int:
        if type(value) not in _INTEGERS or not low <= value < above:
            raise _TypeMismatch
        return int(value)

    return convert


def _floating(above: float) -> Converter:
    def convert(value: Any) -> float:
        if type(value) is not float:
            if type(value) is not int or abs(value) >= above:
                raise _TypeMismatch
            try:
                return float(value)
            except OverflowError:
                raise _TypeMismatch from None
        if abs(value) >= above and not math.isinf(value):
            raise _TypeMismatch
        return value

    return convert


def _decimal(precision: int, scale: int) -> Converter:
    unit, limit = Decimal(1).scaleb(-scale), 10**precision

    def convert(value: Any) -> Decimal:
        if type(value) not in (Decimal, int):
            raise _TypeMismatch
        try:
            quantized = Decimal(value).quantize(unit, context=_EXACT)
        except (Inexact, InvalidOperation):
            raise _TypeMismatch from None
        # `abs` would round to the 28 digits of Python's own context.
        if not quantized.scaleb(scale, context=_EXACT).copy_abs() < limit:
            raise _TypeMismatch
        return quantized

    return convert


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is UUID:
        return str(value)
    raise _TypeMismatch


def _instant(value: Any) -> datetime:
    if type(value) is Nanos:
        return _of_nanos(value)
    if type(value) is not datetime:
        raise _TypeMismatch
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _of_nanos(nanos: Nanos) -> datetime:
    """Return the instant of whole microseconds; refuse one that has parts of them."""
    micros, rest = divmod(nanos, 1000)
    if rest:
        reason = f"{nanos} ns can't be stored exactly: timestamps have microseconds"
        raise BadValue(reason)
    try:
        return EPOCH + micros * _MICROSECOND
    except OverflowError:
        raise _TypeMismatch from None


def _nested(
    kind: pa.DataType, parsing: Callable[[pa.DataType], Converter] | None = None
) -> Converter:
    if pa.types.is_list(kind):
        return _list(converter(kind.value_type, parsing))
    if pa.types.is_map(kind):
        return _map(converter(kind.key_type), converter(kind.item_type, parsing))
    return _struct({field.name: converter(field.type, parsing) for field in kind})


def _list(item: Converter) -> Converter:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _TypeMismatch
        return [item(each) for each in value]

    return convert


def _map(key: Converter, item: Converter) -> Converter:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise _TypeMismatch
        return [(key(name), item(each)) for name, each in value.items()]

    return convert


def _struct(fields: dict[str, Converter]) -> Converter:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _TypeMismatch
        return {name: item(value.get(name)) for name, item in fields.items()}

    return convert
