"""Numbers of JSON that are too large for their columns, of which Spark makes infinities."""

from __future__ import annotations

import math
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

TOO_LARGE = "a number is too large for its column"
"""Why a record with such a number is bad."""
# A number that is too large for `float` has an exponent, or at least as many digits as this.
_LARGE = "[0-9.][eE][+]?[0-9]|[0-9]{39}"


def is_too_large(row: Column, columns: pa.Schema, value: Column) -> Column:
    """Return whether ``from_json`` made an infinity of a number that is too large; never null.

    A record with both an infinity by its name and another number that looks large counts, too.

    Args:
        row: What ``from_json`` returned.
        columns: Its columns.
        value: The JSON text, as bytes.
    """
    infinite = _is_infinite(row, pa.struct(columns))
    if infinite is None:
        return F.lit(False)
    return F.coalesce(infinite & value.cast("string").rlike(_LARGE), F.lit(False))


def _is_infinite(value: Column, kind: pa.DataType) -> Column | None:
    """Return whether a value of a type has an infinite number in it; None if it can't have one.

    Null where the value is null.
    """
    if pa.types.is_floating(kind):
        return F.abs(value) == F.lit(math.inf)
    if pa.types.is_struct(kind):
        parts = [_is_infinite(value[field.name], field.type) for field in kind]
        found = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
        return reduce(lambda left, right: left | right, found) if found else None
    if pa.types.is_map(kind):
        return _is_infinite(F.map_values(value), pa.list_(kind.item_type))
    if pa.types.is_list(kind):

        def in_item(item: Column) -> Column:
            found = _is_infinite(item, kind.value_type)
            return F.lit(False) if found is None else found

        return F.exists(value, in_item)
    return None
