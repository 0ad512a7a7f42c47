"""Python values as decoders return them, fitted to Arrow types: exactly, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa

from sources.common.schema import type_name

Fit = Callable[[Any], Any]
_SHOWN = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FLOAT_MAX = 3.4028234663852886e38
# Wide enough for any number of Spark's decimals times any scale.
_EXACT = Context(prec=128, traps=[Inexact, InvalidOperation])


class BadValue(ValueError):  # noqa: N818 - a verdict on data, as `KeyError` is not
    """A record's value can't be read; the text says why, in words that follow a colon."""


def fitter(kind: pa.DataType) -> Fit:
    """A function that returns a value as ``pyarrow.array`` takes it for a type, unchanged in worth.

    Widening is no change: an integer is a double, a time without a zone is in UTC. Null fits
    everywhere. The function raises :class:`BadValue` for all else.
    """
    name = type_name(kind)
    exact = _scalar(kind) or _nested(kind)

    def fit(value: Any) -> Any:
        if value is None:
            return None
        try:
            return exact(value)
        except _Misfit:
            reason = f"{shown(value)} is no {name}"
            raise BadValue(reason) from None

    return fit


def fitted_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Fitted values as Arrow has them.

    Args:
        values: From a :func:`fitter` of this type.
        kind: The type.
    """
    if pa.types.is_timestamp(kind):
        # Arrow asks each of them for its zone, which takes five times as long.
        values = [None if at is None else (at - _EPOCH) // _MICROSECOND for at in values]
    return pa.array(values, kind)


def shown(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class _Misfit(Exception):  # noqa: N818
    """Caught where value and type are known."""


def _scalar(kind: pa.DataType) -> Fit | None:
    if pa.types.is_integer(kind):
        return _integer(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
    if pa.types.is_floating(kind):
        return _floating(_FLOAT_MAX if kind.bit_width == 32 else math.inf)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    return {
        pa.bool_(): _only(bool),
        pa.string(): _string,
        pa.binary(): _only(bytes),
        pa.date32(): _only(date),
        pa.timestamp("us", tz="UTC"): _instant,
    }.get(kind)


def _only(wanted: type) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is not wanted:
            raise _Misfit
        return value

    return fit


def _integer(low: int, above: int) -> Fit:
    def fit(value: Any) -> int:
        if type(value) is not int or not low <= value < above:
            raise _Misfit
        return value

    return fit


def _floating(highest: float) -> Fit:
    def fit(value: Any) -> float:
        if type(value) is not float:
            if type(value) is not int or abs(value) > highest:
                raise _Misfit
            try:
                return float(value)
            except OverflowError:
                raise _Misfit from None
        if abs(value) > highest and not math.isinf(value):
            raise _Misfit
        return value

    return fit


def _decimal(precision: int, scale: int) -> Fit:
    unit, limit = Decimal(1).scaleb(-scale), 10**precision

    def fit(value: Any) -> Decimal:
        if type(value) not in (Decimal, int):
            raise _Misfit
        try:
            fitted = Decimal(value).quantize(unit, context=_EXACT)
        except (Inexact, InvalidOperation):
            raise _Misfit from None
        # `abs` would round to the 28 digits of Python's own context.
        if not fitted.scaleb(scale, context=_EXACT).copy_abs() < limit:
            raise _Misfit
        return fitted

    return fit


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is UUID:
        return str(value)
    raise _Misfit


def _instant(value: Any) -> datetime:
    if type(value) is not datetime:
        raise _Misfit
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _nested(kind: pa.DataType) -> Fit:
    if pa.types.is_list(kind):
        return _list(fitter(kind.value_type))
    if pa.types.is_map(kind):
        return _map(fitter(kind.key_type), fitter(kind.item_type))
    return _struct({field.name: fitter(field.type) for field in kind})


def _list(item: Fit) -> Fit:
    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Misfit
        return [item(each) for each in value]

    return fit


def _map(key: Fit, item: Fit) -> Fit:
    def fit(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise _Misfit
        return [(key(name), item(each)) for name, each in value.items()]

    return fit


def _struct(fields: dict[str, Fit]) -> Fit:
    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _Misfit
        return {name: item(value.get(name)) for name, item in fields.items()}

    return fit
