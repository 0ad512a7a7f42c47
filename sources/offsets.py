"""From a time, or a declaration, to Kafka start offsets; and everything about gaps in the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from sources.errors import SeamError
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka import KafkaTopic
from sources.pipeline import KafkaSource, StartAtOffsets, StartAtTimestamp
from sources.positions import PartitionStart, StartPosition, iso

_WAY_OUT = (
    "Extend history beyond the hole, or write the start offsets under `start: {offsets: …}` to "
    "accept it."
)


def factory_for(source: KafkaSource, topic: KafkaTopic) -> SourceFactory:
    """The hand-over that a source declares under ``start``."""
    start = source.start
    if isinstance(start, StartAtOffsets):
        return lambda _: at_offsets(source.name, topic, start.offsets)
    if isinstance(start, StartAtTimestamp):
        fixed_ms = int(start.timestamp.timestamp() * 1000)
        return lambda _: at_time(source.name, topic, fixed_ms)
    if start == "earliest":
        return lambda _: at_log_start(source.name, topic)

    def after_previous(context: SourceSwitchContext) -> StartPosition:
        assert context.previous is not None  # the declaration refuses it for a first source
        return at_time(source.name, topic, context.previous.complete_through_ms)

    return after_previous


def at_time(
    source: str,
    topic: KafkaTopic,
    time_ms: int,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> StartPosition:
    """Start each partition at its first record at or after a time.

    End offsets are asked for before the time, and a partition without a match starts there, so
    that a record appended in between is not skipped (as Flink's TimestampOffsetsInitializer).

    Raises:
        SeamError: The time lies in the future, or the log no longer reaches back to it.
    """
    if time_ms > now_ms():
        message = f"History of the source before `{source}` reaches {iso(time_ms)}, in the future."
        hint = "One row with a bad clock is enough: mend it, or write a fixed `start`."
        raise SeamError(message, hint)
    ends = topic.log_end()
    found = topic.offsets_for_time(time_ms)
    starts = topic.log_start()
    _refuse_holes(topic, time_ms, found, starts, ends)
    partitions = {}
    for number, offset in found.items():
        if offset is None:
            reason = f"no record at or after {iso(time_ms)}: end offset read before the look-up"
        else:
            reason = f"first record at or after {iso(time_ms)}"
        partitions[number] = PartitionStart(
            start=ends[number] if offset is None else offset,
            log_start=starts[number],
            log_end=ends[number],
            reason=reason,
        )
    return StartPosition(source=source, topic=topic.topic, time_ms=time_ms, partitions=partitions)


def _refuse_holes(
    topic: KafkaTopic,
    time_ms: int,
    found: dict[int, int | None],
    starts: dict[int, int],
    ends: dict[int, int],
) -> None:
    """A time older than the log is answered with the log's start: tell that from a match."""
    deleted = {number: at for number, at in starts.items() if at > 0}
    emptied = [number for number in deleted if starts[number] == ends[number]]
    if emptied:
        message = (
            f"Topic `{topic.topic}`, partition {emptied[0]}: all its {starts[emptied[0]]} records "
            f"are deleted, so none at or after {iso(time_ms)} can be proved to be in history."
        )
        raise SeamError(message, _WAY_OUT)
    suspects = {number: at for number, at in deleted.items() if found[number] == at}
    for record in topic.read(suspects, 1, ends):
        if record.timestamp_ms > time_ms:
            length_s = (record.timestamp_ms - time_ms) / 1000
            message = (
                f"Topic `{topic.topic}`, partition {record.partition}: the log starts at offset "
                f"{record.offset}, {iso(record.timestamp_ms)}; history is complete through "
                f"{iso(time_ms)}. The {length_s:,.0f} s between are in neither."
            )
            raise SeamError(message, _WAY_OUT)


def at_log_start(source: str, topic: KafkaTopic) -> StartPosition:
    """Start each partition at the first record that is still there."""
    ends, starts = topic.log_end(), topic.log_start()
    partitions = {
        number: PartitionStart(start=at, log_start=at, log_end=ends[number], reason="log start")
        for number, at in starts.items()
    }
    return StartPosition(source=source, topic=topic.topic, time_ms=None, partitions=partitions)


def at_offsets(source: str, topic: KafkaTopic, offsets: dict[int, int]) -> StartPosition:
    """Start at declared offsets.

    Raises:
        SeamError: They do not name exactly the topic's partitions, or lie outside the log.
    """
    if set(offsets) != set(topic.partitions):
        message = (
            f"`start` of source `{source}` names partitions {sorted(offsets)}; "
            f"topic `{topic.topic}` has {topic.partitions}."
        )
        raise SeamError(message, "Name an offset for each.")
    ends, starts = topic.log_end(), topic.log_start()
    position = StartPosition(
        source=source,
        topic=topic.topic,
        time_ms=None,
        partitions={
            number: PartitionStart(
                start=at, log_start=starts[number], log_end=ends[number], reason="declared"
            )
            for number, at in offsets.items()
        },
    )
    check_in_log(position, starts, ends)
    return position


def check_in_log(
    position: StartPosition, log_start: dict[int, int], log_end: dict[int, int]
) -> None:
    """Refuse a start that the log does not hold; asked again just before each first launch.

    A start beyond the log's end would poison Spark's checkpoint for good, one before its start
    would lose what was deleted.

    Raises:
        SeamError: Names topic, partition, offsets and what was lost.
    """
    for number, part in position.partitions.items():
        where = f"Topic `{position.topic}`, partition {number}: start offset {part.start}"
        if number not in log_end:
            message = f"{where} was decided, but the partition is gone."
            raise SeamError(message, "The topic was made anew: start over with a new state folder.")
        if part.start < log_start[number]:
            lost = log_start[number] - part.start
            message = f"{where} is before the log start {log_start[number]}: {lost} offsets lost."
            raise SeamError(message, _WAY_OUT)
        if part.start > log_end[number]:
            message = f"{where} is beyond the log end {log_end[number]}."
            raise SeamError(message, "The topic was made anew, or the offset is wrong.")
