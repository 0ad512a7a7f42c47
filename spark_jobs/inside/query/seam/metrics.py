"""Row counts of a seam by Spark's observed metrics, used only if each offset was counted once.

Spark evaluates a task again if its result is lost, and so may what writes a micro-batch. Therefore
the positions that were counted are combined by exclusive or, too: if that is what all offsets of
the seam give, and there are as many rows as offsets, then each was counted exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import TopicPartition
from spark_jobs.inside.query.seam.duplicate_filters import IS_NEW
from spark_jobs.inside.query.seam.rows_in_seam import NUMBER, POSITION, SeamOffsets, is_in_seam

_NAME = "__seam"
COUNTS = "counts"
_POSITIONS = "positions"
ROWS = "rows"


def observe_seam(
    marked: DataFrame, offsets: SeamOffsets, by: Observation | str = _NAME
) -> DataFrame:
    """Return rows unchanged, whose micro-batches report row counts of the seam as metrics.

    Args:
        marked: Rows that :meth:`SeamOffsets.mark` and the seam filter have marked.
        offsets: The offsets of the seam.
        by: Gets the counts of a batch; those of a stream are in its progress reports.
    """
    kind = 2 * F.col(NUMBER) + F.col(IS_NEW).cast("int")
    # A histogram with a bin for each value counts exactly.
    counts = F.histogram_numeric(kind, F.lit(2 * len(offsets.partitions)))
    positions = F.bit_xor(F.when(is_in_seam(), F.xxhash64(POSITION)))
    rows = F.count(F.lit(1)).alias(ROWS)
    return marked.observe(by, counts.alias(COUNTS), positions.alias(_POSITIONS), rows)


class SeamMetrics:
    """Metrics of a seam: row counts that one driver's micro-batches have reported.

    Attributes:
        last_batch: Number of the last micro-batch that was added; -1 before the first one.
    """

    def __init__(self) -> None:
        self.last_batch = -1
        self._by_batch: dict[int, Mapping[str, Any]] = {}
        self._by_tasks: dict[int, Mapping[TopicPartition, tuple[int, int]]] = {}

    def add_counts(self, counts: Mapping[int, Mapping[TopicPartition, tuple[int, int]]]) -> None:
        """Add row counts of micro-batches whose tasks have written rows of the seam themselves.

        Args:
            counts: Numbers of rows that history has, and of new ones, by partition, by number of
                the micro-batch; a number that was added before is replaced.
        """
        self._by_tasks |= counts

    def add(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Add progress reports of micro-batches, decoded from JSON; each batch counts once."""
        for report in reports:
            self.last_batch = max(self.last_batch, int(report["batchId"]))
            found = (report.get("observedMetrics") or {}).get(_NAME)
            if found is not None and found[COUNTS]:
                self._by_batch[int(report["batchId"])] = found

    def by_partition(
        self, spark: SparkSession, offsets: SeamOffsets
    ) -> dict[TopicPartition, tuple[int, int]] | None:
        """Return by partition the number of the seam's rows, and how many of them are new.

        Args:
            spark: The Spark session.
            offsets: The offsets of the seam.

        Returns:
            None unless each offset of the seam is known to be counted once. It is not if one has no
            row (because of a transaction, compaction, or a rule that leaves it out), or if another
            driver has read a part of the seam.
        """
        found: dict[TopicPartition, list[int]] = {at: [0, 0] for at in offsets.partitions}
        for counts in self._by_tasks.values():
            for at, (held, new) in counts.items():
                found[at] = [found[at][0] + held, found[at][1] + new]
        positions = 0
        for each in self._by_batch.values():
            positions ^= each[_POSITIONS]
            for kind in each[COUNTS]:
                number, is_new = divmod(kind["x"], 2)
                found[offsets.partitions[number]][is_new] += int(kind["y"])
        if sum(map(sum, found.values())) != offsets.total:
            return None
        if self._by_tasks and not self._by_batch:
            # Spark takes what each task has told once.
            return {at: (held + new, new) for at, (held, new) in found.items()}
        hashes = spark.range(offsets.total).select(F.bit_xor(F.xxhash64("id"))).first()
        if hashes is None or hashes[0] != positions:
            return None
        return {at: (held + new, new) for at, (held, new) in found.items()}
