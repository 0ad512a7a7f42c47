"""How the range of a bounded Kafka source is cut into micro-batches, as its log stands."""

from __future__ import annotations

from sources.common.positions import Offsets, iso, span_ms
from sources.common.topic_log import Log
from sources.config.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.end_offsets import newest_read
from sources.kafka.ranges import Ranges, cut_by_time, cut_evenly


def cut_range(source: KafkaSource, log: Log, starts: Offsets, ends: Offsets) -> list[Ranges]:
    """What each micro-batch of a source reads, in order.

    Raises:
        SeamError: It is to be cut by time, and its record timestamps do not allow that.
    """
    ranges = {at: (starts[at], end) for at, end in ends.items() if starts[at] < end}
    limit = source.max_offsets_per_batch
    if source.align is None or not ranges:
        return cut_evenly(ranges, limit)
    drift_ms = span_ms(source.align.drift)
    firsts = [record.timestamp_ms for record in log.read(starts, 1, ends)]
    if min(firsts, default=0) < 0:
        message = f"Records of source `{source.name}` carry no timestamp: they can't be aligned."
        raise SeamError(message, "Leave `align` out.")
    _check_markers(source, log, starts, ends, drift_ms)
    return cut_by_time(ranges, limit, drift_ms, min(firsts, default=0), log.offsets_for_time)


def _check_markers(
    source: KafkaSource, log: Log, starts: Offsets, ends: Offsets, drift_ms: int
) -> None:
    """Refuse to align what was written in transactions much later than its record timestamps say.

    A commit is a control record with the time of the commit. It answers a look-up by time, so what
    lies behind it would look newer than all records that are newer than the last commit.
    """
    newest = newest_read(log, starts, ends)
    if not newest:
        return
    time_ms = max(newest.values()) + 1
    found = log.offsets_for_time(time_ms)
    suspects = {
        at: max(offset, starts[at])
        for at, end in ends.items()
        if (offset := found.get(at)) is not None and offset < end
    }
    for record in log.read(suspects, 1, ends):
        is_answer = record.offset == suspects[record.at]
        if not is_answer and time_ms - record.timestamp_ms > drift_ms:
            message = (
                f"Source `{source.name}` can't be aligned: {record.at} was written in a "
                f"transaction that ended after {iso(time_ms - 1)}, and goes on with offset "
                f"{record.offset} of {iso(record.timestamp_ms)}, so a look-up by time says nothing."
            )
            raise SeamError(message, "Leave `align` out, and allow the watermark more delay.")
