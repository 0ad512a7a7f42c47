"""Sink of a query whose tasks write the rows that they read; each micro-batch is one commit."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.common.positions import Offsets, TopicPartition
from sources.common.schema import ddl
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.arrow_map import map_in_arrow
from spark_jobs.inside.sink.appending.append_once import append_once
from spark_jobs.inside.sink.appending.task_files import (
    FILES,
    HELD,
    LEFT,
    PATH,
    SIZE,
    STATISTICS,
    TaskFiles,
)
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.target_guard import TargetGuard

_Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class DirectSink:
    """Sink of a query whose tasks write the rows that they read, past Spark, into an append table.

    A micro-batch has files that tasks have written, which it commits, and records that tasks have
    left to Spark.

    Attributes:
        target: The table's folder.
        generation: Generation that owns the target.
        guard: Refuses a micro-batch that does not follow what the target holds.
        files: How tasks write.
        left: Given a micro-batch's records that tasks left and its number, computes their rows.
            None if tasks leave none.
        read: Given a micro-batch and its number, returns its reports from tasks that read the
            source themselves, which is faster; or None if Spark should read this one. None if Spark
            reads all.
        count: Called with the number of a micro-batch, and the numbers of rows that its tasks have
            written, of records that they have left, and of those by partition whose rows history
            has. None if nobody counts them.
        positions: Says the positions of micro-batches, for their commits; None for commits
            without one.
        in_driver: Given the number of a micro-batch, reads its rows without Spark, or returns None
            if Spark has to. None if it always has to.
    """

    target: Folder
    generation: Generation
    guard: TargetGuard
    files: TaskFiles
    left: Callable[[DataFrame, int], DataFrame] | None
    read: Callable[[DataFrame, int], DataFrame | None] | None
    count: Callable[[int, int, int, Offsets], None] | None = None
    positions: CommitPositions | None = None
    in_driver: Callable[[int], pa.RecordBatch | None] | None = None

    def stream(self, written: DataFrame, reporting: Callable[[_Write], _Write]) -> DataStreamWriter:
        """Return the writer of a query into this sink; the caller sets checkpoint and trigger.

        Args:
            written: Stream of the files that tasks write, with the columns of
                :data:`~spark_jobs.inside.sink.appending.task_files.FILES`.
            reporting: Wraps the ``foreachBatch`` function so that its errors, which Spark turns
                into text, reach the driver with their fields.
        """
        writer = written.writeStream.queryName(self.generation.info.transaction_id)
        return writer.outputMode("append").foreachBatch(reporting(self.write))

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to the target in one commit; nothing is done if it is there already.

        Evaluating the batch makes tasks write the files; the commit adds them to the table.

        Raises:
            InputError: The table can't be read.
            StateError: The target lacks micro-batches, holds later ones, or others changed its
                rows; or the checkpoint is damaged.
            UnavailableError: The store of the table or of the checkpoint does not answer.
            CommitFailedError: Another process has written this micro-batch meanwhile.
        """
        self.guard.before(batch_id)

        def files(_: DeltaTable) -> list[AddAction]:
            return self._written(batch, batch_id)

        append_once(self.target, self.generation, batch_id, files, self.positions)

    def _written(self, batch: DataFrame, batch_id: int) -> list[AddAction]:
        """Write the files of a micro-batch, mostly by tasks; return the actions that add them."""
        if self.in_driver is not None and (rows := self.in_driver(batch_id)) is not None:
            return _actions(
                [row for part in self.files.write(iter([rows])) for row in part.to_pylist()]
            )
        own = None if self.read is None else self.read(batch, batch_id)
        batch = batch if own is None else own
        if self.left is None:
            return _actions(batch.collect())
        # Tasks write once; then the records that they left are looked at.
        batch = batch.persist()
        try:
            is_told = F.coalesce(PATH, F.col(LEFT).cast("string"), HELD).isNotNull()
            told = batch.where(is_told).select(*FILES.names).collect()
            written, left = _rows_in(told), sum(row[LEFT] or 0 for row in told)
            if left:
                rows = self.left(batch.where(~is_told).drop(*FILES.names), batch_id)
                told += map_in_arrow(rows, self.files.write, ddl(FILES)).collect()
            if self.count is not None:
                self.count(batch_id, written, left, _held_in(told))
            return _actions(told)
        finally:
            batch.unpersist()


def _rows_in(told: Sequence[Row]) -> int:
    """Return the number of rows in the files that tasks have told of."""
    return sum(json.loads(row[STATISTICS])["numRecords"] for row in told if row[PATH] is not None)


def _held_in(told: Sequence[Row]) -> Offsets:
    """Return the number of records by partition of which tasks have told that history has them."""
    found = Counter[TopicPartition]()
    for row in told:
        for topic, partition, count in json.loads(row[HELD] or "[]"):
            found[TopicPartition(topic, partition)] += count
    return found


def _actions(told: Sequence[Row] | Sequence[dict[str, Any]]) -> list[AddAction]:
    now_ms = int(time.time() * 1000)
    return [
        AddAction(
            path=row[PATH],
            size=row[SIZE],
            partition_values={},
            modification_time=now_ms,
            data_change=True,
            stats=row[STATISTICS],
        )
        for row in told
        if row[PATH] is not None
    ]
