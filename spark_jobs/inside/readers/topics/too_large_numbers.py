"""JSON numbers that are too large for their column, which Spark would silently alter.

Of a large ``float`` or ``double`` it makes an infinity, of 128 to 255 in a ``tinyint`` -128 to -1.
"""

from __future__ import annotations

import math

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import with_leaves
from spark_jobs.inside.readers.topics.leaf_values import any_leaf

TOO_LARGE = "a number is too large for its column"
"""Why a record with such a number is bad."""
_TEXT = r'"(?:[^"\\]|\\.)*+"'
# A number that is too large for `float` has an exponent, or at least as many digits as this.
_LARGE = "[0-9.][eE][+]?[0-9]|[0-9]{39}"


def is_too_large(row: Column, columns: pa.Schema, value: Column) -> Column:
    """Return the condition that JSON has a number too large for its column; never null.

    Such a record is bad, as Spark would alter the number. A record with both an infinity by its
    name and another number that looks large counts, too.

    Args:
        row: What ``from_json`` returned, with the types of :func:`parsed_as`.
        columns: The columns, with types of their own.
        value: The JSON text, as bytes.
    """
    # In a text, `2e5` is part of a name.
    large = F.regexp_replace(value.cast("string"), _TEXT, "").rlike(_LARGE)

    def is_other(leaf: Column, kind: pa.DataType) -> Column | None:
        if pa.types.is_floating(kind):
            return (F.abs(leaf) == F.lit(math.inf)) & large
        return ~leaf.between(-128, 127) if pa.types.is_int8(kind) else None

    found = any_leaf(row, pa.struct(columns), is_other)
    return F.lit(False) if found is None else F.coalesce(found, F.lit(False))


def parsed_as(kind: pa.DataType) -> pa.DataType:
    """Return the type as which Spark parses JSON of a type: ``smallint`` in place of ``tinyint``.

    Also inside of structs, lists and maps. So :func:`is_too_large` sees what does not fit.
    """
    return with_leaves(kind, lambda leaf: pa.int16() if pa.types.is_int8(leaf) else leaf)
