"""Types that hold all values of others: what may be read as a wider type without a loss."""

from __future__ import annotations

import pyarrow as pa

_MOST_DIGITS = 38
"""Digits of the widest decimal of Spark SQL."""


def is_wider(before: pa.DataType, now: pa.DataType) -> bool:
    """Return whether a type holds every value of another one, as the value that it is.

    True, too, if both are the same. Wider are integers with more bits, double for float, and
    decimals with no fewer digits on either side of the point. Spark reads Parquet files of the
    narrower type as the wider one (SPARK-40876).

    Args:
        before: Arrow type, as :func:`sources.common.schema.parse_type` returns it.
        now: Type that may be wider, likewise.
    """
    if before == now:
        return True
    if pa.types.is_integer(before) and pa.types.is_integer(now):
        return bool(before.bit_width <= now.bit_width)
    if pa.types.is_floating(before) and pa.types.is_floating(now):
        return bool(before.bit_width <= now.bit_width)
    if pa.types.is_decimal(before) and pa.types.is_decimal(now):
        whole = before.precision - before.scale
        return bool(now.scale >= before.scale and now.precision - now.scale >= whole)
    return False


def widest(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds every value of two types; None if there is none.

    Args:
        one: Arrow type, as :func:`sources.common.schema.parse_type` returns it.
        other: Another one.
    """
    for narrow, wide in ((one, other), (other, one)):
        if is_wider(narrow, wide):
            return wide
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None
    return None
