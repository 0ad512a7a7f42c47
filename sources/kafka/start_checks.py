"""Checks of start offsets against the log, and the offsets that the log has to keep for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sources.common.positions import (
    EndPosition,
    Offsets,
    StartPosition,
    TopicPartition,
    flatten,
)
from sources.common.topic_log import Log
from sources.errors import SeamError


def written_offsets(
    declared: Mapping[str, Mapping[int, int]], partitions: Sequence[TopicPartition], what: str
) -> Offsets:
    """Return declared offsets by partition.

    Args:
        declared: By topic, which may be empty if there is only one, and partition number.
        partitions: All partitions of the topics.
        what: What the offsets are, for messages.

    Raises:
        SeamError: A partition is left out, or does not exist.
    """
    only = partitions[0].topic
    offsets = flatten({topic or only: parts for topic, parts in declared.items()})
    missing = sorted(set(partitions) - set(offsets))
    unknown = sorted(set(offsets) - set(partitions))
    if missing or unknown:
        reasons = [f"{partition} has no offset" for partition in missing[:1]]
        reasons += [f"there is no {partition}" for partition in unknown[:1]]
        message = f"{what}: {'; '.join(reasons)}."
        topic, number = [*missing, *unknown][0]
        hint = "Declare one offset for each partition."
        raise SeamError(message, hint, topic=topic, partition=number)
    return offsets


def needed_offsets(
    log: Log, start: StartPosition, previous: EndPosition | None, lateness_ms: int
) -> Offsets:
    """Return the first offset of each partition that must still be in the log at the hand-over.

    That is the start. For a start by time it is the last record before the first one within the
    allowed lateness: while it is there, nothing newer was deleted.

    Args:
        log: Look-ups on the topics.
        start: Start position.
        previous: End position of the source before, if there is one.
        lateness_ms: How far behind the newest record one may still be appended.
    """
    starts = start.offsets()
    if start.time_ms is None:
        return starts
    needed_ms = start.time_ms if previous is None else previous.complete_through_ms
    answers = log.offsets_for_time(max(needed_ms - lateness_ms, 0))
    reached = {
        partition: starts[partition] if offset is None else offset
        for partition, offset in answers.items()
    }
    log_start = log.log_start()
    return {
        # A control record may be the answer, and the log may begin with it.
        partition: max(min(offset, reached.get(partition, offset)) - 1, log_start.get(partition, 0))
        for partition, offset in starts.items()
    }


def check_in_log(position: StartPosition, log_start: Offsets, log_end: Offsets) -> None:
    """Refuse a start that the log does not hold; called again right before each first launch.

    A start beyond the log end would make Spark's checkpoint unusable, one before the log start
    would lose what was deleted.

    Args:
        position: Start position.
        log_start: First offset of each partition that is left.
        log_end: Offset after the last record of each partition.

    Raises:
        SeamError: Names topic, partition, offsets and what was lost.
    """
    for partition, part in position.partitions.items():
        topic, number = partition
        where = f"Topic `{topic}`, partition {number}: start offset {part.start}"
        if partition not in log_end:
            message = f"{where} was decided, but the partition does not exist any more."
            hint = "The topic was created again: start over with a new state folder."
            raise SeamError(message, hint, topic=topic, partition=number, offset=part.start)
        if part.start < log_start[partition]:
            lost = log_start[partition] - part.start
            message = (
                f"{where} is before the log start {log_start[partition]}: {lost} offsets lost."
            )
            hint = "Kafka deleted them: start over with a new state folder."
            raise SeamError(message, hint, topic=topic, partition=number, offset=part.start)
        if part.start > log_end[partition]:
            message = f"{where} is beyond the log end {log_end[partition]}."
            hint = "The topic was created again, a transaction is open, or the offset is wrong."
            raise SeamError(message, hint, topic=topic, partition=number, offset=part.start)


def check_not_deleted(reached: Offsets, log_start: Offsets) -> None:
    """Refuse to continue where Kafka deleted records that were not read yet.

    Args:
        reached: First offset of each partition that was not read.
        log_start: First offset of each partition that is left.

    Raises:
        SeamError: Names topic, partition, offsets and how many were lost.
    """
    for partition, offset in sorted(reached.items()):
        if offset < (start := log_start.get(partition, offset)):
            topic, number = partition
            message = (
                f"Topic `{topic}`, partition {number} was read up to offset {offset}, and its log "
                f"starts at {start}: {start - offset} offsets were deleted in the meantime."
            )
            hint = "They are lost: start over with a new state folder."
            raise SeamError(message, hint, topic=topic, partition=number, offset=offset)
