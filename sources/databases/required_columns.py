"""Columns that became NOT NULL: whether rows of the target still have nulls that the table lost.

A session without a strict ``sql_mode`` fills them with 0 or an empty text, and writes no change of
a row. A strict one refuses the statement while there are nulls, which changes remove before. So the
target tells, once it has these changes.
"""

from __future__ import annotations

from sources.common.sql_names import quoted
from sources.config.loader import LoadedPipeline
from sources.databases.altered_table import TableWatch, altered
from sources.serving import target_of
from sources.storage.delta import delta_table, is_delta_table, query_rows

PATIENCE_MS = 300_000
"""Milliseconds after which the target has the changes from before the statement."""


def judge_required(loaded: LoadedPipeline, seen: TableWatch) -> TableWatch:
    """Return what a look saw, without required columns of which the target has no null any more.

    Args:
        loaded: The pipeline.
        seen: What the look saw.

    Raises:
        StateError: The state is damaged.
        DeltaError, OSError: The target can't be read.
    """
    if not seen.required or seen.altered is not None:
        return seen
    left = [each for each in seen.required if _has_null(loaded, each.column)]
    for each in left:
        if seen.looked_ms - each.since_ms > PATIENCE_MS:
            what = (
                f"has column `{each.column}` as NOT NULL now, and the target has nulls in it: the "
                "rows that were there got 0 or an empty text"
            )
            found = altered(each.table, what, seen.looked_ms).model_copy(
                update={"statement": each.statement, "since_ms": each.since_ms}
            )
            return seen.model_copy(update={"altered": found})
    return seen.model_copy(update={"required": left})


def _has_null(loaded: LoadedPipeline, column: str) -> bool:
    """Return whether a row of the target that the database has now is null in a column."""
    folder = target_of(loaded)
    if not is_delta_table(folder):
        return False
    table = delta_table(folder)
    if column not in {field.name for field in table.schema().fields}:
        return False
    present = loaded.pipeline.sink.present
    query = f"SELECT 1 AS x FROM target WHERE {present} AND {quoted(column)} IS NULL LIMIT 1"
    found: int = query_rows(table, query).read_all().num_rows
    return found > 0
