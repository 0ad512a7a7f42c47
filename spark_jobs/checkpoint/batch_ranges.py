"""The offsets that each micro-batch of a query reads of a Kafka source."""

from __future__ import annotations

from sources.common.positions import Offsets
from sources.kafka.ranges import Ranges
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log


class BatchRanges:
    """Ranges of offsets of the micro-batches of one query, by the checkpoint.

    Args:
        checkpoint: The checkpoint's folder.
        place: Place of the source, that is its fixed position in the query's union, from 0.
    """

    def __init__(self, checkpoint: Folder, place: int) -> None:
        self._checkpoint = checkpoint
        self._place = place
        # Of the last micro-batch: what it reads is where the next one begins.
        self._known: tuple[int, Offsets] | None = None

    def of(self, batch_id: int) -> Ranges | None:
        """Return the offsets that a micro-batch reads, which has begun.

        Returns:
            None if the checkpoint does not tell: Spark alone knows where it begins to read a
            partition that has appeared since the micro-batch before.

        Raises:
            StateError: The file with the micro-batch's offsets is missing.
        """
        before = self._before(batch_id)
        ends = self._ends(batch_id)
        self._known = (batch_id, ends)
        if before.keys() != ends.keys():
            return None
        return {at: (before[at], end) for at, end in ends.items() if before[at] < end}

    def _before(self, batch_id: int) -> Offsets:
        if self._known is not None and self._known[0] == batch_id - 1:
            found = self._known[1]
        else:
            found = self._ends(batch_id - 1) if batch_id else {}
        first = offset_log.initial_kafka_offsets
        return found or first(self._checkpoint, self._place) or {}

    def _ends(self, batch_id: int) -> Offsets:
        found = offset_log.offset_of(self._checkpoint, batch_id, self._place)
        return offset_log.kafka_offsets(found)
