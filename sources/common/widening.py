"""Widening of types: which type holds all values of another, and what null types become."""

from __future__ import annotations

import pyarrow as pa

from sources.common.schema import MOST_DIGITS


def is_wider(before: pa.DataType, now: pa.DataType) -> bool:
    """Return whether a type holds every value of another type without loss.

    True, too, if both are the same. Wider are integers with more bits, double for float, and
    decimals with no fewer digits on either side of the point. Spark reads Parquet files of the
    narrower type as the wider one (SPARK-40876). Nothing else is wider: neither a decimal nor a
    double than an integer, nor one nested type than another.

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

    Nested types have one only if they are the same.

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
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None
    return None


def with_types_from(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type in which Arrow's null types are replaced by another file's types.

    Parts that are not null, or nested in another way there, are left as they are.

    Args:
        kind: Type in which columns, or parts of them, may be of Arrow's type null.
        other: Type of the same column elsewhere.
    """
    if pa.types.is_null(kind):
        return other
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return pa.list_(with_types_from(kind.value_type, other.value_type))
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return pa.map_(
            with_types_from(kind.key_type, other.key_type),
            with_types_from(kind.item_type, other.item_type),
        )
    if pa.types.is_struct(kind) and pa.types.is_struct(other) and kind.names == other.names:
        return pa.struct(
            [
                (one.name, with_types_from(one.type, two.type))
                for one, two in zip(kind, other, strict=True)
            ]
        )
    return kind


def schema_with_types_from(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema whose null types are replaced by the types that another schema has.

    Columns are matched by name; a column that the other schema lacks keeps its type.
    """
    return pa.schema(
        [
            (each.name, with_types_from(each.type, other.field(each.name).type))
            if each.name in other.names
            else each
            for each in schema
        ]
    )


def without_nulls(kind: pa.DataType) -> pa.DataType:
    """Return a type in which Arrow's null types are replaced by int, also nested ones.

    Spark reads a Parquet column without values as int.
    """
    if pa.types.is_null(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(without_nulls(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(without_nulls(kind.key_type), without_nulls(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, without_nulls(field.type)) for field in kind])
    return kind
