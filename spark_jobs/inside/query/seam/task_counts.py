"""Row counts of a seam by micro-batch, where tasks write new rows and leave out history's.

Spark uses the report of each task once, so such counts need no proof but that each offset has a
row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import DataFrame, Observation

from sources.common.positions import Offsets, TopicPartition
from sources.kafka.ranges.cut_ranges import Ranges
from spark_jobs.inside.query.seam.metrics import COUNTS, ROWS, observe_seam
from spark_jobs.inside.query.seam.rows_in_seam import SeamOffsets

Counts = Mapping[TopicPartition, tuple[int, int]]
"""Number of rows that history has, and of new ones, by partition."""


class TaskCounts:
    """Counts of the rows of a seam by micro-batch.

    Args:
        offsets: The offsets of the seam.
        ends: First offset beyond the seam, by partition.

    Attributes:
        by_batch: The counts by number of the micro-batch; those that are not known are missing.
    """

    def __init__(self, offsets: SeamOffsets, ends: Offsets) -> None:
        self.by_batch: dict[int, Counts] = {}
        self._offsets = offsets
        self._ends = {at: ends[at] for at in offsets.partitions}
        self._left: tuple[int, Observation] | None = None

    def observe(self, marked: DataFrame, batch_id: int) -> DataFrame:
        """Return the rows of the records that tasks left to Spark as they are, and count them.

        They are counted when Spark evaluates them; :meth:`add` then takes the count.

        Args:
            marked: Rows that the seam filter has marked.
            batch_id: Number of their micro-batch.
        """
        observed = Observation()
        self._left = (batch_id, observed)
        return observe_seam(marked, self._offsets, observed)

    def add(self, batch_id: int, ranges: Ranges, left: int, held: Offsets) -> None:
        """Add the row counts of a micro-batch, after its rows were computed.

        Nothing is added if the records that were left do not have one row each.

        Args:
            batch_id: Its number.
            ranges: Its offsets, each of which has a record.
            left: Number of records that its tasks have left, whose rows were computed by now.
            held: Number of rows by partition that its tasks have left out, as history has them.
        """
        found = self._left[1].get if left and self._left and self._left[0] == batch_id else {}
        if found.get(ROWS, 0) != left:
            return
        counted = Counter(held)
        for kind in found.get(COUNTS) or []:
            number, is_new = divmod(int(kind["x"]), 2)
            counted[self._offsets.partitions[number]] += 0 if is_new else int(kind["y"])
        read = {
            at: min(end, self._ends[at]) - first
            for at, (first, end) in ranges.items()
            if first < self._ends.get(at, 0)
        }
        self.by_batch[batch_id] = {
            at: (counted[at], count - counted[at]) for at, count in read.items()
        }
