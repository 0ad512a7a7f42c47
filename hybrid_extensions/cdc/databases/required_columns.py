"""Columns that became NOT NULL: whether the target still has nulls, and how long to wait for it.

A session without a strict ``sql_mode`` fills them with 0 or an empty text, and writes no change of
a row. A strict one refuses the statement while there are nulls, which changes remove before. So the
target tells, once it has these changes, however long that takes.
"""

from __future__ import annotations

from hybrid_extensions.cdc.databases.altered_table import TableWatch, alteration_of
from sources.common.positions import Offsets
from sources.common.sql.sql_names import quoted
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog
from sources.serving import target_of
from sources.storage.tables.delta import delta_table, is_delta_table, query_rows

PATIENCE_MS = 300_000
"""Milliseconds after which the topic has the changes from before a statement that is reported."""


def judge_required(
    loaded: LoadedPipeline, topic: KafkaSource, seen: TableWatch, committed: Offsets | None
) -> TableWatch:
    """Decide about columns that became NOT NULL by looking at the target's rows.

    Returns the inspection without columns in which the target has no null left; with an alteration,
    if nulls are left although the target has all earlier changes; else with the column kept.

    Args:
        loaded: The pipeline.
        topic: The topic of the table's changes.
        seen: Result of the inspection.
        committed: Offsets up to which the target has the topic; None if that is not known.

    Raises:
        InputError: The broker refuses.
        StateError: The state is damaged.
        UnavailableError: The broker or a store does not answer.
        DeltaError, OSError: The target can't be read.
    """
    if not seen.required or seen.altered is not None:
        return seen
    left, doubt = [], seen.unknown
    for each in seen.required:
        if not _has_null(loaded, each.column):
            continue
        if seen.looked_ms - each.since_ms <= PATIENCE_MS:
            left.append(each)
        elif each.statement is None:
            # The connector may not have read yet what came before.
            left.append(each)
            doubt = doubt or (
                f"column `{each.column}` became NOT NULL, and the target has nulls in it: the rows "
                "that were there may have got 0 or an empty text. Run `hybrid compare P`"
            )
        elif each.ends is None:
            left.append(each.model_copy(update={"ends": KafkaLog(topic).log_end()}))
        elif not _is_beyond(committed, each.ends):
            left.append(each)
        else:
            what = (
                f"has column `{each.column}` as NOT NULL now, and the target has nulls in it: the "
                "rows that were there got 0 or an empty text"
            )
            found = alteration_of(each.table, what, seen.looked_ms).model_copy(
                update={"statement": each.statement, "since_ms": each.since_ms}
            )
            return seen.model_copy(update={"altered": found})
    return seen.model_copy(update={"required": left, "unknown": doubt})


def _is_beyond(committed: Offsets | None, ends: Offsets) -> bool:
    return committed is not None and all(committed.get(at, 0) >= end for at, end in ends.items())


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
