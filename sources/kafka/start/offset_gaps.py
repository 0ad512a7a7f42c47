"""Gaps at a hand-over by offsets: what history lacks of those that it should hold."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.positions import (
    Gap,
    HeldOffsets,
    Offsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.common.topic_log import Log


def gap(partition: TopicPartition, why: str, **known: int) -> Gap:
    """Make the :class:`Gap` (missing offsets) of a partition.

    Args:
        partition: The partition.
        why: What is missing and why, in words.
        known: Times and offsets that are known of it, by name of a field of :class:`Gap`.
    """
    return Gap(topic=partition.topic, partition=partition.partition, why=why, **known)


def before_log_start(partition: TopicPartition, needed: int, log_start: int, why: str) -> list[Gap]:
    """Return the gap of a partition whose log starts after the first offset that is needed of it.

    Empty if the log reaches back so far.

    Args:
        partition: The partition.
        needed: First offset that history does not hold.
        log_start: First offset that Kafka has not deleted.
        why: Where history ends, in words.
    """
    if needed >= log_start:
        return []
    why = f"{why}; the log starts at offset {log_start}"
    return [gap(partition, why, from_offset=needed, to_offset=log_start)]


def holes(
    log: Log,
    held: HeldOffsets,
    starts: Offsets,
    ends: Offsets,
    expected: StartPosition | None = None,
) -> list[Gap]:
    """Return gaps inside history: offsets that its files lack although they hold later ones.

    Empty without any. Called when a start is decided by the offsets that history holds.

    Control records and compaction leave such holes, and so does a file that never arrived. A hole
    is a gap if the log has a record in it; or if Kafka has deleted its offsets, so that nobody can
    tell, and the topic is not compacted. What lies before history's first record is no hole.

    Args:
        log: Look-ups on the topics.
        held: Offsets that history holds.
        starts: First offset of each partition that is not deleted.
        ends: Log end of each partition.
        expected: Start position that the plan expected; None if there is no plan yet. A hole that
            the log still had when it was planned, and that was no gap then, is none now.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    found = [
        gap(
            at,
            f"history holds later records, but not the one at offset {offset}"
            f"{_between(held, at, offset)}",
            from_offset=offset,
            to_offset=offset + 1,
        )
        for at, offset in in_holes(log, held, starts, ends).items()
    ]
    if not held.exact:
        return found
    shown = _shown(expected)
    unknown = {
        at: below
        for at, ranges in held.holes.items()
        if at in starts
        and (
            below := [
                part
                for first, end in ranges
                if 0 < first < starts[at]
                and (part := _outside((first, min(end, starts[at])), shown.get(at, (0, 0))))
            ]
        )
    }
    compacted = log.compacted() if unknown else frozenset()
    for at, below in unknown.items():
        if at.topic in compacted:
            continue
        first, end = below[0]
        more = f" (and {len(below) - 1} more such holes)" if len(below) > 1 else ""
        why = (
            f"history holds later records, but not offsets {first} to {end - 1}"
            f"{_between(held, at, first)}{more}. Kafka has deleted them, so nothing shows "
            "whether they were records"
        )
        found.append(gap(at, why, from_offset=first, to_offset=end))
    return found


def in_holes(log: Log, held: HeldOffsets, starts: Offsets, ends: Offsets) -> Offsets:
    """Return, by partition, the offset of the first record in the log that history's holes hide.

    Holes are offsets that history lacks although it holds later ones. Partitions without such a
    record are left out.

    Args:
        log: Look-ups on the topics.
        held: Offsets that history holds.
        starts: First offset of each partition that is not deleted.
        ends: Log end of each partition.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    inside = {
        partition: [
            (max(first, starts[partition]), min(end, ends[partition]))
            for first, end in ranges
            if end > starts[partition] and first < ends[partition]
        ]
        for partition, ranges in held.holes.items()
    }
    return log.first_within({partition: parts for partition, parts in inside.items() if parts})


def left_out_of_held(
    log: Log,
    held: HeldOffsets,
    partitions: Mapping[TopicPartition, PartitionStart],
    ends: Offsets,
) -> list[Gap]:
    """Return gaps between the last offsets in history and the start offsets of the topic.

    There is one where the log has a record between the two, or no longer reaches back so far; the
    list is empty without any.

    Args:
        log: Look-ups on the topics.
        held: Offsets that history holds, exactly.
        partitions: Start of each partition.
        ends: Log end of each partition.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    following = {at: held.next.get(at, 0) for at in partitions}
    between = {
        at: [(max(following[at], part.log_start), min(part.start, ends[at]))]
        for at, part in partitions.items()
        if max(following[at], part.log_start) < min(part.start, ends[at])
    }
    lost = log.first_within(between) if between else {}
    found = []
    for at, part in partitions.items():
        why = f"history holds its records up to offset {following[at] - 1}"
        if following[at] == 0:
            why = "history holds none of its records"
        if following[at] < part.log_start and part.start > following[at]:
            why += f"; the log starts at offset {part.log_start}"
        elif at in lost:
            why += f"; the start would be offset {part.start}"
        else:
            continue
        found.append(gap(at, why, from_offset=following[at], to_offset=part.start))
    return found


def _shown(expected: StartPosition | None) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offsets before the expected start that the log could show when it was planned."""
    if expected is None or expected.gaps or expected.evidence != "offsets":
        return {}
    return {at: (part.log_start, part.start) for at, part in expected.partitions.items()}


def _outside(hole: tuple[int, int], shown: tuple[int, int]) -> tuple[int, int] | None:
    """Return the first part of a hole that lies outside of some offsets, or None."""
    first, end = hole
    if first < shown[0]:
        return first, min(end, shown[0])
    first = max(first, shown[1])
    return (first, end) if first < end else None


def _between(held: HeldOffsets, at: TopicPartition, offset: int) -> str:
    """Name the files on both sides of a hole, if they are known."""
    for (first, end), (before, after) in zip(
        held.holes.get(at, []), held.beside.get(at, []), strict=False
    ):
        if first <= offset < end and before:
            return f" (between files {before} and {after})"
        if first <= offset < end:
            return f" (before file {after})"
    return ""
