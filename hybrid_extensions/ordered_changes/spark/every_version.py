"""Target with every version of a row, each with the time range of its validity.

A version is a change, named by key and sequence. It is valid from its own time until the earliest
time of the versions after it in the sequence, whatever the order in which they arrive; the last one
has no end. So intervals of a key never overlap: a version whose time is not before that of a later
one was never valid, and its interval is empty. A delete is a version, too, so that an older change
that arrives after it does not become the last one.
"""

from __future__ import annotations

from deltalake import Transaction
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.ordered_changes.spark.deletes import comparable, order
from sources.common.counting import counted
from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import VALID_FROM, VALID_TO, Sink
from sources.errors import InputError
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, column, of_source
from spark_jobs.inside.sink.merging.keys import KeyRange
from spark_jobs.inside.sink.merging.merge_once import merge_once
from spark_jobs.inside.sink.merging.target_columns import with_validity

_IS_NEW = "__is_new"
_BEFORE = "__valid_to_before"


def merge_versions(
    batch: DataFrame,
    batch_id: int,
    target: Folder,
    sink: Sink,
    generation: Generation,
    *,
    application: str | None = None,
) -> None:
    """Add the versions of one micro-batch to the target, and end the preceding ones.

    In one commit. A version that the target has is left as it is; a micro-batch that was merged
    before is skipped, by Delta's transaction id.

    Args:
        batch: Rows that the transform returned.
        batch_id: Number of the micro-batch, the version of the commit's transaction.
        target: The table's folder.
        sink: The declaration of the sink, with a ``sequence`` and ``history``.
        generation: State of the generation that owns the target.
        application: Delta's application id of the commit; None for that of the generation's
            micro-batches.

    Raises:
        InputError: A row has no time from which it is valid.
        UnavailableError: The login to the store has expired.
    """
    identity = [*map(in_backticks, sink.row_key)]
    new = with_validity(batch, str(sink.history)).dropDuplicates(sink.row_key).persist()
    try:
        # Evaluate the batch even if Delta will skip the MERGE: otherwise Spark finds the state of
        # the operators above uncommitted and fails.
        timeless, earliest, lowest = new.agg(
            F.count_if(F.col(VALID_FROM).isNull()),
            F.unix_micros(F.min(VALID_FROM)),
            F.min_by(comparable(new, sink.order[0]), order(sink.order)),
        ).first() or (0, None, None)
        _require_times(timeless, str(sink.history), target)
        there = new.sparkSession.read.format("delta").load(target.hadoop_path)
        there = there.where(_may_change(there, sink, earliest, lowest))
        by_key = [F.col(f"t.{name}").eqNullSafe(F.col(f"s.{name}")) for name in identity]
        of_keys = there.alias("t").join(new.alias("s"), by_key[: len(sink.key)], "left_semi")
        added = new.alias("s").join(of_keys.alias("t"), by_key, "left_anti")
        every = of_keys.select("*", F.lit(False).alias(_IS_NEW)).unionByName(
            added.select("*", F.lit(True).alias(_IS_NEW)),
            # The table may have columns that the source no longer has.
            allowMissingColumns=True,
        )
        later = (
            Window.partitionBy(*map(in_backticks, sink.key))
            .orderBy(order(sink.order))
            .rowsBetween(1, Window.unboundedFollowing)
        )
        # Nulls count for neither.
        ends = F.least(VALID_TO, F.min(VALID_FROM).over(later))
        ended = every.withColumn(_BEFORE, F.col(VALID_TO)).withColumn(VALID_TO, ends)
        is_changed = F.col(_IS_NEW) | ~F.col(VALID_TO).eqNullSafe(F.col(_BEFORE))
        changed = ended.where(is_changed).drop(_IS_NEW, _BEFORE).persist()
        try:
            keys = KeyRange(changed, sink.row_key)
            # An aggregate of nothing is none: a key may have no column with limits.
            _, *limits = changed.agg(F.count(F.lit(1)), *keys.limits).first() or (0,)
            merge_once(
                changed,
                target,
                keys.match(limits),
                [
                    When("MATCHED", "UPDATE", values={VALID_TO: column("s", VALID_TO)}),
                    When("NOT MATCHED", "INSERT", values=of_source(changed.columns)),
                ],
                Transaction(application or generation.info.transaction_id, batch_id),
            )
        finally:
            changed.unpersist()
    finally:
        new.unpersist()


def _may_change(there: DataFrame, sink: Sink, earliest: int | None, lowest: object) -> Column:
    """Return which versions of the target a micro-batch may end, or be ended by.

    By statistics Delta skips the files that hold none of them. A version that is over by the
    earliest new time ends no later by a new one, and one that is earlier in the sequence than all
    new ones ends none of them.

    Args:
        there: The target.
        sink: The declaration of the sink.
        earliest: The earliest time of a new version, in µs since 1970; None if there is none.
        lowest: Value of the first sequence column in the new version with the lowest sequence, as
            :func:`comparable` returns it; None for null, which comes first.
    """
    first = comparable(there, sink.order[0])
    # Only these types are compared in Python's form as in Spark's.
    if earliest is None or not isinstance(lowest, int | str):
        return F.lit(True)
    end = F.col(VALID_TO)
    is_valid = end.isNull() | (end > F.timestamp_micros(F.lit(earliest)))
    return is_valid | (first >= F.lit(lowest))


def _require_times(timeless: int, time: str, target: Folder) -> None:
    if not timeless:
        return
    rows = counted(timeless, "row has", "rows have")
    message = (
        f"{rows} no value in `{time}`, which `sink.history` names for the time from which on a "
        "version is valid. Nothing of the micro-batch was written."
    )
    hint = (
        "Let the function or query of `transform` fill the column, or leave such rows out, and run "
        "the pipeline again: `hybrid run P`."
    )
    raise InputError(message, hint, field="sink.history", column=time, table=target.url)
