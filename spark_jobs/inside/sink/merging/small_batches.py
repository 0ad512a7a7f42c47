"""Small micro-batches of a topic, of at most 5,000 offsets, which a single task processes.

A task costs some ten milliseconds, however few rows it has, and a shuffle costs another stage of
them: more than the work on some hundred changes.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from sources.kafka.ranges.cut_ranges import size_of
from sources.storage.folder import Folder
from spark_jobs.checkpoint.batch_ranges import BatchRanges

_FEW = 5_000
"""Offsets of a micro-batch up to which one task does its work."""


class SmallBatches:
    """Rule by which a query's small micro-batches are coalesced into one task, which is faster.

    How many records a micro-batch has is known from the offsets that Spark wrote before it. Not for
    a query with stateful operators, whose state is in many tasks.

    Args:
        checkpoint: The query's checkpoint.
        place: Number of the topic's place in the query's union.
    """

    def __init__(self, checkpoint: Folder, place: int) -> None:
        self._ranges = BatchRanges(checkpoint, place)

    def in_one_task(self, batch: DataFrame, batch_id: int) -> DataFrame:
        """Return a micro-batch's rows, coalesced into one task if it has at most 5,000 offsets.

        It is returned as it is if it has more, if it has none, or if something else than these
        offsets is to be read, too.

        Args:
            batch: Rows that the transform returned.
            batch_id: Number of the micro-batch.

        Raises:
            StateError: The file with its offsets is missing or damaged.
        """
        found = self._ranges.of(batch_id)
        return batch.coalesce(1) if found and size_of(found) <= _FEW else batch
