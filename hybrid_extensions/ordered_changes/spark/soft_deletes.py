"""Soft deletes, which mark a row: the row keeps the values from before its delete.

A delete may carry nothing but the key. Its row keeps the values of the change before it, which may
be in the table or in the same micro-batch.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink

SEEN = "__seen"
"""Column of a change: of a delete, the sequence of the change whose values it has got; or null."""


def with_values_before(batch: DataFrame, sink: Sink, is_gone: Column, by: Column) -> DataFrame:
    """Give each delete the values of the preceding change of its key in the same micro-batch.

    So a row that is marked as deleted keeps its values although the delete has only the key.

    Args:
        batch: Changes of one micro-batch.
        sink: The declaration of the sink, with ``deletes: soft``.
        is_gone: Whether a change is a delete.
        by: What orders the changes of a key.

    Returns:
        The changes with one column more, :data:`SEEN`: the sequence of the change whose values a
        delete has got, else null.
    """
    before = (
        Window.partitionBy(*map(in_backticks, sink.key))
        .orderBy(by, is_gone)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    rows = batch.withColumn(
        SEEN,
        F.last(
            F.when(~is_gone, F.struct(*map(in_backticks, batch.columns))), ignorenulls=True
        ).over(before),
    )
    seen = F.col(SEEN)
    is_filled = is_gone & seen.isNotNull()
    own = {*sink.key, *sink.order, sink.deleted}
    values = [
        F.col(in_backticks(name))
        if name in own
        else F.when(is_filled, seen[name]).otherwise(F.col(in_backticks(name))).alias(name)
        for name in batch.columns
    ]
    # Names that a struct without names has in Delta's Rust library, which compares them, too.
    sequence = F.struct(*(seen[name].alias(f"c{n}") for n, name in enumerate(sink.order)))
    return rows.select(*values, F.when(is_filled, sequence).alias(SEEN))
