"""Merge by key alone: a row replaces that with its key; two of one key in a micro-batch refused."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import Transaction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.counting import counted
from sources.common.sql.sql_names import in_backticks
from sources.errors import InputError
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import KeyRange
from spark_jobs.inside.sink.merging.merge_once import merge_once
from spark_jobs.inside.sink.merging.small_merge import SmallMerge, bytes_of


def merge_by_key(
    batch: DataFrame,
    batch_id: int,
    target: Folder,
    key: Sequence[str],
    generation: Generation,
    *,
    application: str | None = None,
) -> None:
    """Merge one micro-batch into the target by key, in one commit.

    A row replaces the target's row of the same key. A micro-batch that was written before is
    skipped, by Delta's transaction id. A null in the key equals another null.

    Args:
        batch: Rows that the transform returned for the micro-batch.
        batch_id: Number of the micro-batch.
        target: The table's folder.
        key: Names of the columns that identify a row.
        generation: Generation that owns the target.
        application: Delta's application id of the commit; None for that of the generation's
            micro-batches.

    Raises:
        InputError: Two rows of the batch have the same key.
        UnavailableError: The login to the table's store has expired.
    """
    batch = batch.persist()
    try:
        # Evaluate the batch even if Delta will skip the MERGE: otherwise Spark finds the state of
        # the operators above uncommitted and fails.
        keys = KeyRange(batch, key)
        size, total, distinct, *limits = batch.agg(
            bytes_of(batch),
            F.count(F.lit(1)),
            F.count_distinct(F.struct(*map(in_backticks, key))),
            *keys.limits,
        ).first() or (0, 0, 0)
        if total != distinct:
            names = ", ".join(key)
            message = (
                f"Micro-batch {batch_id} has {counted(total, 'row')} for "
                f"{counted(distinct, 'value')} of `sink.key` ({names}): the key has to "
                "identify each row that the transform returns. Nothing of the "
                "micro-batch was written."
            )
            hint = (
                "Let the transform return one row for each key (for example by `dropDuplicates`) "
                "and run the pipeline again: `hybrid run P`. Or declare a `sink.key` that "
                "identifies each row, and begin a new generation: `hybrid generation new P`."
            )
            raise InputError(message, hint, field="sink.key", value=names, table=target.url)
        values = of_source(batch.columns)
        clauses = [
            When("MATCHED", "UPDATE", values=values),
            When("NOT MATCHED", "INSERT", values=values),
        ]
        merge_once(
            batch,
            target,
            keys.match(limits),
            clauses,
            Transaction(application or generation.info.transaction_id, batch_id),
            SmallMerge(rows=total, bytes=size, compared=key, clauses=clauses),
        )
    finally:
        batch.unpersist()
