"""Order in which a target's columns are widened, added and emptied before a query starts."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hybrid_extensions.cdc.spark.emptied_columns import empty_columns
from hybrid_extensions.cdc.spark.followed_columns import follow_columns
from hybrid_extensions.cdc.spark.widened_columns import widen_columns
from sources.config.table.sink import Sink
from spark_jobs.inside.sink.later_columns import LaterColumns, TargetTable


def follow_later_columns(
    later: LaterColumns, sink: Sink, target: TargetTable, rows: DataFrame
) -> None:
    """Change the target, as :func:`spark_jobs.inside.sink.later_columns.follow_later_columns`.

    Raises:
        StateError: Rows may hold other values of a column already, so that it can't be added.
        UnavailableError: The login to a store has expired, or the state's store does not answer.
    """
    folder, table, generation = target
    if later.widened:
        widen_columns(rows.sparkSession, folder, table, sink, generation, later.widened)
    if later.added or later.ignored:
        follow_columns(folder, table, rows, generation, later.added, later.ignored)
    empty_columns(folder, table, rows, generation, later.emptied)
