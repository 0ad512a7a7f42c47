"""Micro-batches of a bounded Kafka source."""

from __future__ import annotations

from sources.common.positions import Offsets, iso, span_ms
from sources.common.topic_log import Log
from sources.config.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.end_offsets import newest_read
from sources.kafka.ranges import Ranges, cut_by_time, cut_evenly


def cut_range(source: KafkaSource, log: Log, starts: Offsets, ends: Offsets) -> list[Ranges]:
    """Return the ranges of offsets that each micro-batch of a source reads, in order.

    Args:
        source: Declaration of the source.
        log: Look-ups on its topics.
        starts: First offset of each partition.
        ends: First offset that is not read.

    Raises:
        SeamError: ``align`` is declared, and the record timestamps do not allow it.
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
    firsts = [record.timestamp_ms for record in log.read(starts, 1, ends)]
    if min(firsts, default=0) < 0:
        message = f"Records of source `{source.name}` carry no timestamp: they can't be aligned."
        raise SeamError(message, "Omit `align`.", source=source.name, field="align")
    _check_markers(source, log, starts, ends, drift_ms)
    return cut_by_time(ranges, limit, drift_ms, min(firsts, default=0), log.offsets_for_time)


def _check_markers(
    source: KafkaSource, log: Log, starts: Offsets, ends: Offsets, drift_ms: int
) -> None:
    """Refuse to align records whose transaction was committed much later than their timestamps.

    A commit is a control record with the time of the commit, which a look-up by time may return.
    Records behind it would then count as newer than they are.
    """
    newest = newest_read(log, starts, ends)
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
                f"{record.offset} of {iso(record.timestamp_ms)}, so a look-up by time misleads."
            )
            hint = "Omit `align`, and use a longer watermark delay."
            topic, number = record.partition
            raise SeamError(message, hint, source=source.name, topic=topic, partition=number)
