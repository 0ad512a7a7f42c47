"""Hash of a row's content, to compare rows of one key: 0.0 equals -0.0, maps in any order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
)

from sources.common.sql.sql_names import in_backticks

# By default Spark leaves out null fields and cuts off microseconds.
_AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def content_of(columns: Sequence[StructField]) -> Column:
    """Return a 64-bit hash of some columns of a row: a bigint, never null.

    Values are compared exactly, also those in floating point, but 0.0 and -0.0 are the same, and
    so are maps whose entries come in another order. Columns of another type are cast first.

    Args:
        columns: Names and types of the columns, whose order matters.
    """
    values = [_canonical(F.col(in_backticks(field.name)), field.dataType) for field in columns]
    # Spark's hash skips nulls, so (1, null) and (null, 1) would have the same one.
    return F.xxhash64(F.lit(0), *values, *(value.isNull() for value in values))


def _canonical(value: Column, kind: DataType) -> Column:
    value = value.cast(kind)
    if isinstance(kind, DoubleType | FloatType):
        return value + F.lit(0.0)
    if isinstance(kind, MapType):
        value = F.array_sort(F.map_entries(value))
    if isinstance(kind, MapType | ArrayType | StructType):
        return F.to_json(value, _AS_JSON)
    return value
