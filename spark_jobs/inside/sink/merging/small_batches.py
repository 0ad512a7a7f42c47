"""Small micro-batches of a topic, which a single task processes.

A task costs some ten milliseconds, however few rows it has, and a shuffle costs another stage of
them: more than the work on some hundred changes.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from sources.common.positions import Offsets
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log

_FEW = 5_000
"""Offsets of a micro-batch up to which one task does its work."""


class SmallBatches:
    """Coalesces a query's small micro-batches into one task, which is faster than several.

    How many records a micro-batch has is known from the offsets that Spark wrote before it. Not for
    a query with stateful operators, whose state is in many tasks.

    Args:
        checkpoint: The query's checkpoint.
        place: Number of the topic's place in the query's union.
    """

    def __init__(self, checkpoint: Folder, place: int) -> None:
        self._checkpoint, self._place = checkpoint, place
        self._last: tuple[int, Offsets] = (-1, {})

    def in_one_task(self, batch: DataFrame, batch_id: int) -> DataFrame:
        """Return a micro-batch's rows, coalesced into one task if it has at most 5,000 offsets.

        Call it for each micro-batch, in order. The first one after a start is left as it is:
        nothing says where it begins.

        Args:
            batch: Rows that the transform returned.
            batch_id: Number of the micro-batch.

        Raises:
            StateError: The file with its offsets is missing.
        """
        offset = offset_log.offset_of(self._checkpoint, batch_id, self._place)
        before, self._last = self._last, (batch_id, offset_log.kafka_offsets(offset))
        begins, ends = before[1], self._last[1]
        if before[0] != batch_id - 1 or not ends or not begins.keys() >= ends.keys():
            return batch
        few = sum(end - begins[at] for at, end in ends.items()) <= _FEW
        return batch.coalesce(1) if few else batch
