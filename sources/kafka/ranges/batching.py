"""Micro-batches of a bounded topic; ``align`` needs record times that look-ups can rely on."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.durations import span_ms
from sources.common.positions import Offsets, TopicPartition
from sources.common.times import iso
from sources.common.topic_log import Log
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.record_times import RecordTimes, latest_ms
from sources.kafka.ranges.cut_ranges import Ranges, cut_by_time, cut_evenly
from sources.kafka.ranges.end_offsets import NOTHING_READ, newest_read

_UNALIGNED = (
    "Remove `align` from the source, and use a longer watermark delay: partitions then advance by "
    "offsets only."
)


def cut_range(
    source: KafkaSource, log: Log, starts: Offsets, ends: Offsets, now_ms: int
) -> list[Ranges]:
    """Cut the offsets of a bounded Kafka source into the ranges that each micro-batch reads.

    Without ``align``, each batch takes from every partition in proportion to its size. With
    ``align`` batches are cut by record time, so that at the end of each batch no partition is ahead
    of another by more than ``align.drift``, and a watermark drops no rows of one that lags. That
    needs record timestamps which look-ups by time can rely on; those from the future are ignored.

    Args:
        source: Declaration of the source; at most ``max_offsets_per_batch`` in each batch.
        log: Look-ups on its topics; asked only for ``align``.
        starts: First offset of each partition to read.
        ends: First offset of each partition that is not read.
        now_ms: Time now, in milliseconds.

    Returns:
        The ranges of each batch, in reading order; an empty list if no offsets are left to read.

    Raises:
        SeamError: ``align`` is declared, and a first record carries no timestamp, or a transaction
            was committed so much later than its records that look-ups by time mislead.
        UnavailableError: ``align`` is declared, and the broker does not answer.
        InputError: ``align`` is declared, and the broker refuses.
    """
    ranges = {
        partition: (starts[partition], end)
        for partition, end in ends.items()
        if starts[partition] < end
    }
    limit = source.max_offsets_per_batch
    if source.align is None or not ranges:
        return cut_evenly(ranges, limit)
    drift_ms = span_ms(source.align.drift)
    begin_ms = min((record.timestamp_ms for record in log.read(starts, 1, ends)), default=0)
    if begin_ms < 0:
        raise no_timestamps(source.name)
    newest = newest_read(log, starts, ends, now_ms)
    _check_markers(source, log, starts, ends, drift_ms, newest)
    times = RecordTimes(log, ends, now_ms)
    if begin_ms > latest_ms(now_ms):
        begin_ms = 0
    return cut_by_time(ranges, limit, drift_ms, begin_ms, times.offsets_for_time)


def no_timestamps(source: str) -> SeamError:
    """Return the error to raise for records that ``align`` is declared for but have no timestamp.

    Args:
        source: Name of the source.
    """
    message = (
        f"Records of source `{source}` carry no timestamp: they can't be aligned, as `align` cuts "
        "micro-batches by record time."
    )
    return SeamError(message, _UNALIGNED, source=source, field="align")


def _check_markers(
    source: KafkaSource,
    log: Log,
    starts: Offsets,
    ends: Offsets,
    drift_ms: int,
    newest: Mapping[TopicPartition, int],
) -> None:
    """Refuse to align records whose transaction was committed much later than their timestamps.

    A commit is a control record with the time of the commit, which a look-up by time may return.
    Records behind it would then count as newer than they are.
    """
    if not newest:
        return
    time_ms = max(newest.values()) + 1
    answers = log.offsets_for_time(time_ms)
    suspects = {
        partition: max(offset, starts[partition])
        for partition, end in ends.items()
        if (offset := answers.get(partition)) is not None and offset < end
    }
    for record in log.read(suspects, 1, ends):
        is_answer = record.offset == suspects[record.partition]
        if not is_answer and time_ms - record.timestamp_ms > drift_ms:
            message = (
                f"Source `{source.name}` can't be aligned: {record.partition} was written in a "
                f"transaction that ended after {iso(time_ms - 1)}, and continues with offset "
                f"{record.offset} of {iso(record.timestamp_ms)}, so a look-up by time misleads. "
                f"{NOTHING_READ}"
            )
            topic, number = record.partition
            raise SeamError(
                message,
                _UNALIGNED,
                source=source.name,
                topic=topic,
                partition=number,
                offset=record.offset,
                field="align",
            )
