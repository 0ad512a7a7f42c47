"""Leaf values: tests on the primitive values nested in a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

Test = Callable[[Column, pa.DataType], Column | None]
"""Returns whether a value of a type passes; None if no value of the type does."""


def any_leaf(value: Column, kind: pa.DataType, test: Test) -> Column | None:
    """Return a condition: any primitive value nested in a column passes a test, at any depth.

    Of a map only the values are tested, not the keys.

    Args:
        value: The value.
        kind: Its type, with the leaves that the test knows.
        test: Makes the condition of one value; None where no value of a type passes.

    Returns:
        The condition, which may be null where the value is null; None if no leaf of the type can
        pass.
    """
    if pa.types.is_struct(kind):
        parts = [any_leaf(value[field.name], field.type, test) for field in kind]
        found = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
        return reduce(lambda left, right: left | right, found) if found else None
    if pa.types.is_map(kind):
        return any_leaf(F.map_values(value), pa.list_(kind.item_type), test)
    if pa.types.is_list(kind):

        def in_item(item: Column) -> Column:
            found = any_leaf(item, kind.value_type, test)
            return F.lit(False) if found is None else found

        return F.exists(value, in_item)
    return test(value, kind)
