"""Ranges of offsets, cut into batches in proportion or by record time (FLIP-182).

All ranges are half-open. In each partition the batches follow each other without a hole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sources.common.positions import TopicPartition

Ranges = dict[TopicPartition, tuple[int, int]]
"""First offset and the one after the last, by partition; empty ranges are left out."""
LookUp = Callable[[int], Mapping[TopicPartition, int | None]]
"""Function from a time (ms) to the first offset of each partition that is as new, or None."""
SPLIT_OFFSETS = 250_000
"""Offsets of a split: a task that reads fewer spends its time mostly on opening a consumer."""


@dataclass(frozen=True)
class Split:
    """Offsets of one partition that one task reads: from ``first`` up to, and without, ``end``."""

    partition: TopicPartition
    first: int
    end: int

    @property
    def offsets(self) -> int:
        """Number of offsets in the split; it may hold fewer records."""
        return self.end - self.first


def size_of(ranges: Ranges) -> int:
    """Return the number of offsets in all ranges together.

    There may be fewer records: control records and compaction use up offsets.
    """
    return sum(end - first for first, end in ranges.values())


def cut_evenly(ranges: Ranges, limit: int) -> list[Ranges]:
    """Cut ranges into batches that take from each partition in proportion to its size.

    Args:
        ranges: Ranges to cut.
        limit: Highest number of offsets in a batch. Rounding may exceed it by less than one for
            each partition.

    Returns:
        The batches in reading order; an empty list for empty ranges.
    """
    count = -(-size_of(ranges) // limit)

    def share(number: int) -> Ranges:
        return _filled(
            {
                partition: (
                    first + (end - first) * number // count,
                    first + (end - first) * (number + 1) // count,
                )
                for partition, (first, end) in ranges.items()
            }
        )

    return [batch for number in range(count) if (batch := share(number))]


def cut_by_time(
    ranges: Ranges, limit: int, drift_ms: int, begin_ms: int, look_up: LookUp
) -> list[Ranges]:
    """Cut ranges into batches after which no partition is ahead of another by more than a drift.

    Time is divided into slices as long as the drift. A batch takes as many whole slices as fit the
    limit; a single slice that is larger is cut in proportion (:func:`cut_evenly`). Of each
    partition a slice has the records before its first one that is as new as the slice's end.

    Args:
        ranges: Ranges to cut.
        limit: Highest number of offsets in a batch, exceeded by rounding only.
        drift_ms: Length of a slice in milliseconds, at least 1.
        begin_ms: Start of the first slice in Unix milliseconds: the lowest timestamp, as far as
            known.
        look_up: Called with the end of a slice (Unix ms), as rarely as possible; returns the first
            offset of each partition that is as new, or None.

    Returns:
        The batches in reading order; an empty list for empty ranges.
    """
    slices = 1
    while size_of(ranges_before(ranges, look_up(begin_ms + slices * drift_ms))) < size_of(ranges):
        slices *= 2

    def cut(part: Ranges, low: int, high: int) -> list[Ranges]:
        if size_of(part) <= limit:
            return [part] if part else []
        if high - low == 1:
            return cut_evenly(part, limit)
        middle = (low + high) // 2
        early = ranges_before(part, look_up(begin_ms + middle * drift_ms))
        late = {
            partition: (early.get(partition, (0, first))[1], end)
            for partition, (first, end) in part.items()
        }
        return [*cut(early, low, middle), *cut(_filled(late), middle, high)]

    return cut(_filled(ranges), 0, slices)


def splits_of(batch: Ranges, limit: int = SPLIT_OFFSETS) -> list[Split]:
    """Divide the ranges of one micro-batch into splits, one for each Spark task.

    In the order of partitions and offsets; empty for empty ranges.

    Args:
        batch: Ranges of offsets of one micro-batch.
        limit: Highest number of offsets in a split; splits of one partition are about equally
            large.
    """
    return [
        Split(partition, *piece[partition])
        for partition, part in sorted(batch.items())
        for piece in cut_evenly({partition: part}, limit)
    ]


def ranges_before(ranges: Ranges, answers: Mapping[TopicPartition, int | None]) -> Ranges:
    """Return the parts of ranges before looked-up offsets; all of a partition without an answer.

    Args:
        ranges: The ranges; empty parts are left out of the result.
        answers: First offset that does not belong to the part, by partition; None for no such one.
    """
    reached = {
        partition: end if (to := answers.get(partition)) is None else to
        for partition, (_, end) in ranges.items()
    }
    # The log changes: an answer may lie outside of what was decided.
    return _filled(
        {
            partition: (first, max(first, min(reached[partition], end)))
            for partition, (first, end) in ranges.items()
        }
    )


def _filled(ranges: Ranges) -> Ranges:
    return {partition: (first, end) for partition, (first, end) in ranges.items() if first < end}
