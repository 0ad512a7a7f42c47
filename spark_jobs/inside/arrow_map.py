"""Use of `mapInArrow` on rows whose column names have a dot or a backtick."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow``: takes the record batches of a partition, and yields others."""


def map_in_arrow(rows: DataFrame, step: Step, returned: str) -> DataFrame:
    """Apply a ``mapInArrow`` function to rows, whatever the names of their columns are.

    PySpark's own ``mapInArrow`` looks up each column as an expression, in which a dot means a field
    of a struct and a backtick a quoted name. So columns travel under numbers where one has such a
    name; the function sees the names that they have. Evaluated when the result is.

    Args:
        rows: The rows.
        step: The function.
        returned: Columns of its result, as DDL.
    """
    names = rows.columns
    if not any("." in name or "`" in name for name in names):
        return rows.mapInArrow(step, returned)

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*map(str, range(len(names)))).mapInArrow(named, returned)
