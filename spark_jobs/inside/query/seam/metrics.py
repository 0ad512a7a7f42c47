"""Row counts of a seam, which micro-batches report as observed metrics.

Spark evaluates a task again if its result is lost, and so may what writes a micro-batch. Therefore
the positions that were counted are combined by exclusive or, too: if that is what all offsets of
the seam give, and there are as many rows as offsets, then each was counted exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import TopicPartition
from spark_jobs.inside.query.seam.filters import IS_NEW
from spark_jobs.inside.query.seam.offsets import NUMBER, POSITION, SeamOffsets, is_in_seam

_NAME = "__seam"
_COUNTS = "counts"
_POSITIONS = "positions"


def observe_seam(marked: DataFrame, offsets: SeamOffsets) -> DataFrame:
    """Return a stream with the same rows, whose micro-batches report their rows in the seam.

    :class:`SeamMetrics` reads these reports.

    Args:
        marked: Rows that :meth:`SeamOffsets.mark` and the seam filter have marked.
        offsets: The offsets of the seam.
    """
    kind = 2 * F.col(NUMBER) + F.col(IS_NEW).cast("int")
    # A histogram with a bin for each value counts exactly.
    counts = F.histogram_numeric(kind, F.lit(2 * len(offsets.partitions)))
    positions = F.bit_xor(F.when(is_in_seam(), F.xxhash64(POSITION)))
    return marked.observe(_NAME, counts.alias(_COUNTS), positions.alias(_POSITIONS))


class SeamMetrics:
    """Row counts of a seam that one driver's micro-batches have reported.

    Attributes:
        last_batch: Number of the last micro-batch that was added; -1 before the first one.
    """

    def __init__(self) -> None:
        self.last_batch = -1
        self._by_batch: dict[int, Mapping[str, Any]] = {}

    def add(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Add progress reports of micro-batches, decoded from JSON; each batch counts once."""
        for report in reports:
            self.last_batch = max(self.last_batch, int(report["batchId"]))
            found = (report.get("observedMetrics") or {}).get(_NAME)
            if found is not None and found[_COUNTS]:
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
        positions = 0
        for each in self._by_batch.values():
            positions ^= each[_POSITIONS]
            for kind in each[_COUNTS]:
                number, is_new = divmod(kind["x"], 2)
                found[offsets.partitions[number]][is_new] += int(kind["y"])
        if sum(map(sum, found.values())) != offsets.total:
            return None
        hashes = spark.range(offsets.total).select(F.bit_xor(F.xxhash64("id"))).first()
        if hashes is None or hashes[0] != positions:
            return None
        return {at: (held + new, new) for at, (held, new) in found.items()}
