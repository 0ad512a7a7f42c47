"""Offsets of a topic that one micro-batch reads, by the checkpoint; None if it reads others too."""

from __future__ import annotations

from typing import Any

from sources.common.positions import Offsets
from sources.kafka.ranges.cut_ranges import Ranges
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log


class BatchRanges:
    """Ranges of a topic's offsets that a query's micro-batches read, by the checkpoint.

    Args:
        checkpoint: The checkpoint's folder.
        place: Number of the source's fixed position in the query's union, from 0.
    """

    def __init__(self, checkpoint: Folder, place: int) -> None:
        self._checkpoint = checkpoint
        self._place = place
        # Of the last micro-batch: what it has read is where the next one begins.
        self._known: tuple[int, list[Any]] | None = None

    def of(self, batch_id: int) -> Ranges | None:
        """Return the ranges of offsets that a micro-batch, which has begun, reads of the topic.

        Returns:
            First offset and the one after the last, by partition with new records; empty without
            new records. None if these offsets are not all that the micro-batch is about: a
            partition has appeared or is gone, its log has become shorter, or another source has
            something to read.

        Raises:
            StateError: The file with the offsets of the micro-batch, of the one before it, or of
                the topic's start is missing or damaged.
            UnavailableError: The checkpoint's store does not answer.
        """
        before, after = self._before(batch_id), offset_log.offsets_of(self._checkpoint, batch_id)
        self._known = (batch_id, after)
        starts, ends = self._of_topic(before), self._of_topic(after)
        if not starts:
            starts = offset_log.initial_kafka_offsets(self._checkpoint, self._place) or {}
        is_alone = self._of_others(before) == self._of_others(after)
        has_grown = starts.keys() == ends.keys() and all(starts[at] <= ends[at] for at in ends)
        if not (is_alone and has_grown):
            return None
        return {at: (starts[at], end) for at, end in ends.items() if starts[at] < end}

    def _before(self, batch_id: int) -> list[Any]:
        if self._known is not None and self._known[0] == batch_id - 1:
            return self._known[1]
        return offset_log.offsets_of(self._checkpoint, batch_id - 1) if batch_id else []

    def _of_topic(self, offsets: list[Any]) -> Offsets:
        is_there = self._place < len(offsets)
        return offset_log.kafka_offsets(offsets[self._place] if is_there else None)

    def _of_others(self, offsets: list[Any]) -> dict[int, Any]:
        found = enumerate(offsets)
        return {at: each for at, each in found if at != self._place and each is not None}
