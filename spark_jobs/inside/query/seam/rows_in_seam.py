"""Which rows of a topic lie in a seam whose offsets are given by partition."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import Offsets, TopicPartition
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC

NUMBER = "__seam_partition"
POSITION = "__seam_position"
"""Position of a row's offset among all offsets of the seam, from 0; null outside of the seam."""


class SeamOffsets:
    """Offsets of a seam, the part of a topic whose rows history may also contain.

    Args:
        starts: Start offset of each partition.
        ends: First offset beyond the seam, by partition; others have none in it.

    Attributes:
        partitions: Partitions with offsets in the seam; a row's :data:`NUMBER` is an index of it.
        total: Number of offsets in the seam.
    """

    def __init__(self, starts: Offsets, ends: Offsets) -> None:
        self.partitions: list[TopicPartition] = []
        self.total = 0
        self._rows: list[tuple[str, int, int, int, int]] = []
        for at, end in sorted(ends.items()):
            start = starts.get(at, 0)
            if start < end:
                number, shift = len(self.partitions), self.total - start
                self._rows.append((at.topic, at.partition, end, number, shift))
                self.partitions.append(at)
                self.total += end - start

    def mark(self, live: DataFrame) -> DataFrame:
        """Add the columns :data:`NUMBER` and :data:`POSITION` to rows; both null outside the seam.

        ``NUMBER`` is the index of the row's partition in ``partitions``; ``POSITION`` that of its
        offset among all offsets of the seam, from 0. No row is removed.

        Args:
            live: Parsed rows with their topic, partition and offset (``LOG_COLUMNS``).
        """
        table = live.sparkSession.createDataFrame(
            self._rows, "__t string, __p int, __end bigint, __number int, __shift bigint"
        )
        same = (live[TOPIC] == table["__t"]) & (live[PARTITION] == table["__p"])
        is_inside = F.col(OFFSET) < F.col("__end")
        # A join, as Spark looks up literal maps entry by entry, and there may be 10,000 partitions.
        return live.join(F.broadcast(table), same, "left").select(
            live["*"],
            F.when(is_inside, F.col("__number")).alias(NUMBER),
            F.when(is_inside, F.col(OFFSET) + F.col("__shift")).alias(POSITION),
        )


def is_in_seam() -> Column:
    """Return the condition that a row, marked by :meth:`SeamOffsets.mark`, lies in the seam."""
    return F.col(POSITION).isNotNull()
