"""Merge of the newest change of each key, by their sequence, whatever the order of arrival.

A row of the target keeps the sequence of the change that wrote it, and only a change that is not
older replaces it. A removed row can't keep its sequence:
:mod:`hybrid_extensions.ordered_changes.spark.deletes` does.
"""

from __future__ import annotations

from deltalake import Transaction
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.ordered_changes.spark.deletes import Deletes, comparable, order
from hybrid_extensions.ordered_changes.spark.soft_deletes import SEEN, with_values_before
from hybrid_extensions.ordered_changes.spark.truncation import Truncation
from hybrid_extensions.ordered_changes.spark.unchanged_values import (
    ValueByValue,
    lacks_key,
    latest_values,
    long_columns,
    require_key,
)
from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, column, of_source
from spark_jobs.inside.sink.merging.keys import KeyRange
from spark_jobs.inside.sink.merging.merge_once import merge_once
from spark_jobs.inside.sink.merging.small_merge import SmallMerge, bytes_of
from spark_jobs.inside.sink.merging.target_columns import target_rows
from spark_jobs.table.kept_deletes import DELETES


def merge_changes(  # noqa: PLR0913 - the last one is rare
    batch: DataFrame,
    batch_id: int,
    target: Folder,
    sink: Sink,
    generation: Generation,
    truncation: Truncation | None = None,
    *,
    application: str | None = None,
) -> None:
    """Merge one micro-batch of changes, or a part of it, into the target in one commit.

    A change replaces a row only if its sequence is not lower than the row's. A micro-batch that was
    merged before is skipped, by Delta's transaction id.

    Args:
        batch: Rows that the transform returned; of several changes of a key only the one with the
            highest sequence counts.
        batch_id: Number of the micro-batch, the version of the commit's transaction.
        target: The table's folder.
        sink: The declaration of the sink, with a ``sequence``.
        generation: State of the generation that owns the target; it keeps deletes of removed rows.
        truncation: Its TRUNCATEs, if they are followed: older rows of the target are removed, and
            older changes do not count, in whatever order they arrive.
        application: Delta's application id of the commit; None for that of the generation's
            micro-batches.

    Raises:
        InputError: A change lacks a value of the key.
        UnavailableError: The login to the store has expired.
    """
    if sink.deleted and not sink.removes_rows:
        batch = with_values_before(batch, sink, _is_deleted(sink), order(sink.order))
    last = _last_of_each_key(batch, sink).persist()
    try:
        # Evaluate the batch even if Delta will skip the MERGE: otherwise Spark finds the state of
        # the operators above uncommitted and fails.
        is_gone = _is_deleted(sink)
        keys = KeyRange(last, sink.key)
        size, deleted, others, lowest, keyless, lacking, truncated, *limits = last.agg(
            bytes_of(last),
            F.count_if(is_gone),
            F.count_if(~is_gone),
            F.min_by(comparable(last, sink.order[0]), F.when(~is_gone, order(sink.order))),
            F.lit(0) if sink.unchanged is None else lacks_key(sink),
            F.lit(0) if sink.unchanged is None else F.count(F.col(in_backticks(sink.unchanged))),
            F.lit(None) if truncation is None else truncation.last_in(),
            *keys.limits,
        ).first() or (0, 0, 0, None, 0, 0, None)
        require_key(last, sink, keyless, target)
        written = target_rows(last, sink).drop(SEEN)
        clauses, changes, small = change_clauses(sink, written), last, None
        if not lacking and truncated is None:
            small = SmallMerge(
                rows=deleted + others,
                bytes=size,
                compared=[*sink.key, *sink.order],
                clauses=change_clauses(sink, written, is_complete=True),
                empty=sink.unchanged,
            )
        if truncation is not None:
            # Before the rows are removed, and older changes of other partitions arrive.
            truncation.keep(truncated)
            changes = truncation.later(last)
            clauses += truncation.clauses(truncated)
        if sink.deleted and sink.removes_rows:
            deletes = Deletes(generation.folder(DELETES), sink)
            # A row's own delete is not in this batch, which has one row for each key.
            is_late = others > 0 and deletes.may_hold_later(lowest)
            if deleted:
                # Before the rows are removed: a batch that is tried again finds them kept.
                deletes.keep(changes.where(is_gone), deleted)
            if is_late:
                # After keep(), which may compact the files.
                changes = deletes.without_deleted_since(changes, lowest)
        merge_once(
            changes,
            target,
            keys.match(limits),
            clauses,
            Transaction(application or generation.info.transaction_id, batch_id),
            small,
        )
    finally:
        last.unpersist()


def _last_of_each_key(batch: DataFrame, sink: Sink) -> DataFrame:
    by = order(sink.order)
    row = F.max_by(F.struct(*map(in_backticks, batch.columns)), by)
    if sink.unchanged is not None:
        return latest_values(batch, sink, row, by)
    return batch.groupBy(*map(in_backticks, sink.key)).agg(row.alias("row")).select("row.*")


def _is_deleted(sink: Sink) -> Column:
    if sink.deleted is None:
        return F.lit(False)
    return F.coalesce(F.col(in_backticks(sink.deleted)), F.lit(False))


def change_clauses(sink: Sink, rows: DataFrame, *, is_complete: bool = False) -> list[When]:
    """Return the clauses of a MERGE of changes, one for each key.

    Args:
        sink: The declaration of the sink.
        rows: Rows with the columns of the target.
        is_complete: Whether no row lacks a value (``sink.unchanged``), of the micro-batch or of the
            target, so that rows are ordered as a whole.
    """
    ours, theirs = (
        ", ".join(column(of, name) for name in sink.order) for of in ("s", "t")
    )  # fmt: skip
    is_newer = f"struct({ours}) >= struct({theirs})"
    update, older = of_source(rows.columns), []
    insert = When("NOT MATCHED", "INSERT", values=of_source(rows.columns))
    is_gone = None if sink.deleted is None else f"coalesce({column('s', sink.deleted)}, false)"
    if sink.unchanged is not None and not is_complete:
        values = ValueByValue(rows.columns, long_columns(rows.schema, sink), sink)
        update = values.of_newer
        is_row = "" if is_gone is None else f" AND NOT {is_gone}"
        lacks_some = f"{column('t', sink.unchanged)} IS NOT NULL"
        older = [
            When("MATCHED", "UPDATE", f"NOT {is_newer}{is_row} AND {lacks_some}", values.of_older)
        ]
    replace = When("MATCHED", "UPDATE", is_newer, update)
    if sink.deleted is None or is_gone is None:
        return [replace, *older, insert]
    if sink.removes_rows:
        remove = When("MATCHED", "DELETE", f"{is_newer} AND {is_gone}")
        return [remove, replace, *older, insert._replace(condition=f"NOT {is_gone}")]
    # A delete may carry nothing but the key: the row stays as it was last seen.
    is_bare = f"(s.{SEEN} IS NULL OR s.{SEEN} < struct({theirs}))"
    marks = of_source([sink.deleted, *sink.order])
    mark = When("MATCHED", "UPDATE", f"{is_newer} AND {is_gone} AND {is_bare}", marks)
    return [mark, replace, *older, insert]
