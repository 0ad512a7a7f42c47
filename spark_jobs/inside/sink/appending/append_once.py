"""Commit of a micro-batch's files to an append-only table, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.sink.table_properties import STATISTICS
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.delta_table import USER_METADATA, commit_files, commit_once, open_table


def append_once(
    target: Folder,
    generation: Generation,
    batch_id: int,
    files: Callable[[DeltaTable], Sequence[AddAction]],
    positions: CommitPositions | None = None,
) -> None:
    """Append a micro-batch's files to the target in one commit, unless it was committed before.

    The commit has the transaction that Delta's own streaming sink gives it, (query id, number of
    the micro-batch), so either of them may write the next micro-batch, or this one again.

    Args:
        target: The table's folder.
        generation: Generation that owns the target.
        batch_id: Number of the micro-batch.
        files: Makes the files; called only if the micro-batch is not in the table.
        positions: Says the position of the micro-batch, for its commit; None to say none.

    Raises:
        InputError: The table can't be read.
        StateError: The checkpoint is damaged.
        UnavailableError: The store of the table or of the checkpoint does not answer.
        CommitFailedError: Another process has written this micro-batch meanwhile.
    """
    query_id = str(offset_log.query_id(generation.checkpoint))
    table = open_table(target)
    written = table.transaction_version(query_id)
    if written is not None and written >= batch_id:
        return
    commit = partial(commit_files, table, files(table))
    metadata = None if positions is None else positions.of(batch_id)
    commit_once(commit, target, Transaction(query_id, batch_id), metadata)


def append_rows(
    batch: DataFrame,
    batch_id: int,
    target: Folder,
    generation: Generation,
    positions: CommitPositions | None = None,
) -> None:
    """Append the rows of a micro-batch by Spark, unless they were appended before.

    Args:
        batch: The rows.
        batch_id: Number of the micro-batch.
        target: The table's folder.
        generation: Generation that owns the target.
        positions: Says the position of the micro-batch, for its commit; None to say none.

    Raises:
        StateError: The checkpoint is damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    query_id = str(offset_log.query_id(generation.checkpoint))
    options = {"txnAppId": query_id, "txnVersion": str(batch_id)}
    if positions is not None:
        options[USER_METADATA] = positions.of(batch_id)
    batch.write.format("delta").mode("append").options(**options).save(target.hadoop_path)


def columns_with_statistics(table: DeltaTable) -> list[str]:
    """Return the columns of which a table's files have statistics, by the table's properties.

    All columns if no property names them.
    """
    named = table.metadata().configuration.get(STATISTICS)
    if named is None:
        return [field.name for field in table.schema().fields]
    return [each.strip("` ") for each in named.split(",")]
