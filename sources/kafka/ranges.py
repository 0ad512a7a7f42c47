"""Ranges of offsets cut into batches: in proportion, or by record time (FLIP-182).

Everything here is half-open, by partition; batches follow each other without a hole in each one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sources.common.positions import TopicPartition

Ranges = dict[TopicPartition, tuple[int, int]]
"""First offset and the one after the last, by partition; those without offsets are left out."""
LookUp = Callable[[int], Mapping[TopicPartition, int | None]]
"""First offset whose record timestamp is at or after a time (ms); None where there is none."""
# A task that reads less spends its time on opening a consumer.
SPLIT_OFFSETS = 250_000


@dataclass(frozen=True)
class Split:
    """What one task reads at a stretch: offsets from ``first`` on and below ``end``."""

    at: TopicPartition
    first: int
    end: int


def size_of(ranges: Ranges) -> int:
    """Number of offsets; records are fewer, as control records and compaction take some up."""
    return sum(end - first for first, end in ranges.values())


def cut_evenly(ranges: Ranges, limit: int) -> list[Ranges]:
    """Batches that take of each partition in proportion to what it holds.

    Args:
        ranges: What is to be cut.
        limit: Offsets that a batch has at most; rounded, so by less than one for each partition.
    """
    count = -(-size_of(ranges) // limit)

    def share(number: int) -> Ranges:
        return _filled(
            {
                at: (
                    first + (end - first) * number // count,
                    first + (end - first) * (number + 1) // count,
                )
                for at, (first, end) in ranges.items()
            }
        )

    return [batch for number in range(count) if (batch := share(number))]


def cut_by_time(
    ranges: Ranges, limit: int, drift_ms: int, begin_ms: int, look_up: LookUp
) -> list[Ranges]:
    """Batches between which no partition is ahead of another by more than a drift.

    Time is cut into slices as long as the drift. A batch takes in whole slices, as many as fit
    the limit; a slice that is larger is cut in proportion. Of a slice each partition gives what
    lies before its first record of the next one: all of that is older than the slice's end. Few
    times are looked up: only those between which more lies than one batch holds.

    Args:
        ranges: What is to be cut.
        limit: As of :func:`cut_evenly`.
        drift_ms: Length of a slice, at least 1.
        begin_ms: Begin of the first slice: the lowest timestamp, as far as known.
        look_up: Asked with times between two slices.
    """
    slices = 1
    while size_of(_before(ranges, look_up(begin_ms + slices * drift_ms))) < size_of(ranges):
        slices *= 2

    def cut(part: Ranges, low: int, high: int) -> list[Ranges]:
        if size_of(part) <= limit:
            return [part] if part else []
        if high - low == 1:
            return cut_evenly(part, limit)
        middle = (low + high) // 2
        early = _before(part, look_up(begin_ms + middle * drift_ms))
        late = {at: (early.get(at, (0, first))[1], end) for at, (first, end) in part.items()}
        return [*cut(early, low, middle), *cut(_filled(late), middle, high)]

    return cut(_filled(ranges), 0, slices)


def splits_of(batch: Ranges, limit: int = SPLIT_OFFSETS) -> list[Split]:
    """What the tasks of one batch read, each partition in pieces of about the same size."""
    return [
        Split(at, *piece[at])
        for at, part in sorted(batch.items())
        for piece in cut_evenly({at: part}, limit)
    ]


def _before(ranges: Ranges, found: Mapping[TopicPartition, int | None]) -> Ranges:
    """What lies before the offsets that were found; all of a partition where none was."""
    reached = {at: end if (to := found.get(at)) is None else to for at, (_, end) in ranges.items()}
    # The log lives on: an answer may lie outside of what was decided.
    return _filled(
        {at: (first, max(first, min(reached[at], end))) for at, (first, end) in ranges.items()}
    )


def _filled(ranges: Ranges) -> Ranges:
    return {at: (first, end) for at, (first, end) in ranges.items() if first < end}
