"""Checks of offsets against the log (deleted, truncated), and which ones it has to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sources.common.counting import counted
from sources.common.positions import EndPosition, Offsets, StartPosition, TopicPartition, flatten
from sources.common.topic_log import Log
from sources.errors import SeamError
from sources.kafka.client.kafka_errors import NEW_GENERATION


def written_offsets(
    declared: Mapping[str, Mapping[int, int]], partitions: Sequence[TopicPartition], what: str
) -> Offsets:
    """Return declared offsets by partition, after checking that they cover all partitions.

    Whether the log holds the offsets is not checked.

    Args:
        declared: Offsets by topic name, which may be empty text if there is only one topic, and by
            partition number.
        partitions: All partitions of the topics.
        what: What the offsets are, for messages, such as ``The end offsets of source live``.

    Raises:
        SeamError: A partition is left out, or does not exist.
    """
    only = partitions[0].topic if partitions else ""
    offsets = flatten({topic or only: parts for topic, parts in declared.items()})
    missing = sorted(set(partitions) - set(offsets))
    unknown = sorted(set(offsets) - set(partitions))
    if missing or unknown:
        reasons = [f"{partition} has no offset" for partition in missing[:1]]
        reasons += [f"there is no {partition}" for partition in unknown[:1]]
        message = f"{what}: {'; '.join(reasons)}."
        topic, number = [*missing, *unknown][0]
        counts = Counter(partition.topic for partition in partitions).items()
        existing = ", ".join(
            f"`{name}` has {counted(count, 'partition')}" for name, count in counts
        )
        hint = f"Give one offset for each partition, numbered from 0, and for no other: {existing}."
        raise SeamError(message, hint, topic=topic, partition=number)
    return offsets


def needed_offsets(
    log: Log, start: StartPosition, previous: EndPosition | None, lateness_ms: int
) -> Offsets:
    """Return the first offset of each partition that Kafka must still hold at the hand-over.

    That is the start offset. For a start by time it is the record before the time through which
    the previous source is complete (of the first source: before the start's time), earlier still by
    ``lateness_ms``, but none before the log start: as long as that record is there, nothing that
    may be needed was deleted. The retention headroom is measured for these, by the plan and while
    history is read.

    Args:
        log: Look-ups on the topics.
        start: Start position of the topics.
        previous: End position of the source before; None for the first source.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
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
    """Refuse a start offset that the Kafka log does not hold.

    Called when the start is decided, and again right before Spark's first run from it.

    A start beyond the log end would make Spark's checkpoint unusable, one before the log start
    would lose what was deleted.

    Args:
        position: Start position.
        log_start: First offset of each partition that is not deleted.
        log_end: Offset after the last record of each partition.

    Raises:
        SeamError: A start is before the log start or beyond the log end, or its partition does not
            exist any more; names topic, partition, offsets and how many were lost.
    """
    for partition, part in position.partitions.items():
        topic, number = partition
        where = f"Topic `{topic}`, partition {number}: start offset {part.start}"
        if partition not in log_end:
            message = (
                f"{where} was decided ({part.reason}), but the partition does not exist any more: "
                "the topic was deleted or created again, or `bootstrap_servers` leads to another "
                "cluster."
            )
            hint = f"Correct `bootstrap_servers`; for a new topic, {NEW_GENERATION}"
        elif part.start < log_start[partition]:
            lost = log_start[partition] - part.start
            message = (
                f"{where} is before the log start {log_start[partition]}: "
                f"{counted(lost, 'offset')} lost, which Kafka deleted. Their rows would be "
                f"missing from the table. The offset was decided by: {part.reason}."
            )
            hint = (
                "Let the files of history cover the deleted records, or raise the offset if it is "
                f"declared under `start`. If the pipeline is planned already, {NEW_GENERATION}"
            )
        elif part.start > log_end[partition]:
            message = (
                f"{where} is beyond the log end {log_end[partition]}. The offset was decided by: "
                f"{part.reason}."
            )
            hint = (
                "If the offset is declared or comes from the names or columns of files, correct "
                "it. If a transaction is open, which keeps the log end back, try again when it has "
                f"ended. If the topic was created again, {NEW_GENERATION}"
            )
        else:
            continue
        raise SeamError(
            message, hint, source=position.source, topic=topic, partition=number, offset=part.start
        )


def check_not_truncated(reached: Offsets, log_end: Offsets) -> None:
    """Refuse a log that ends before what was known of it: its next records get offsets once more.

    Called when a run begins to read or follow it, and while it follows. A partition that the log
    does not have passes.

    Args:
        reached: First offset of each partition that was not read, as it was before the log was
            asked; of a planned range its ends.
        log_end: Offset after the last record of each partition, open transactions included.

    Raises:
        SeamError: A partition's log ends before the offset that was reached; names topic,
            partition and offsets.
    """
    for partition, offset in sorted(reached.items()):
        if offset > (end := log_end.get(partition, offset)):
            topic, number = partition
            message = (
                f"Topic `{topic}`, partition {number} was known up to offset {offset}, and its log "
                f"ends at {end}: it was truncated, as by an unclean leader election, or restored. "
                f"New records get the offsets from {end} on, and would be missing from the table."
            )
            hint = f"Restore the log if that is possible; else {NEW_GENERATION}"
            raise SeamError(message, hint, topic=topic, partition=number, offset=offset)


def check_not_deleted(reached: Offsets, log_start: Offsets) -> None:
    """Refuse to resume a topic where Kafka has deleted records that were not read yet.

    Called before each launch that resumes, and by the run itself where it starts. A partition that
    the log does not have passes.

    Args:
        reached: First offset of each partition that was not read, such as by Spark's checkpoint.
        log_start: First offset of each partition that is not deleted.

    Raises:
        SeamError: A partition's log starts after the offset that was reached; names topic,
            partition, offsets and how many were lost.
    """
    for partition, offset in sorted(reached.items()):
        if offset < (start := log_start.get(partition, offset)):
            topic, number = partition
            message = (
                f"Topic `{topic}`, partition {number} was read up to offset {offset}, and its log "
                f"starts at {start}: Kafka deleted {counted(start - offset, 'offset')} in the "
                "meantime. Rows would be missing from the table."
            )
            hint = f"Let the files of history cover the deleted records, then {NEW_GENERATION}"
            raise SeamError(message, hint, topic=topic, partition=number, offset=offset)
