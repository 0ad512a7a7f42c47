"""Where a bounded Kafka source ends, and what that tells of where the next source starts."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.positions import EndPosition, HeldOffsets, Offsets, TopicPartition, iso, to_ms
from sources.common.topic_log import Log
from sources.config.kafka_options import EndAtOffsets, EndAtTimestamp
from sources.config.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.start_offsets import written_offsets

_TAIL_RECORDS = 100


def resolve_ends(
    source: KafkaSource, log: Log, start: Mapping[TopicPartition, int], now_ms: int
) -> Offsets:
    """First offset that is not read, for each partition there is, by what ``until`` declares.

    Args:
        source: The declaration.
        log: Its look-ups.
        start: First offset that is read; a partition that appeared since has none.
        now_ms: The clock.

    Raises:
        SeamError: The end lies in the future, is not in the log, or comes before the start.
    """
    ends = log.log_end()
    if isinstance(source.until, EndAtOffsets):
        what = f"The end offsets of source `{source.name}`"
        written = written_offsets(source.until.offsets, log.partitions, what)
        for at, end in written.items():
            if not start.get(at, 0) <= end <= ends[at]:
                message = (
                    f"Source `{source.name}` would end at offset {end} of {at}, which it starts at "
                    f"offset {start.get(at, 0)}; the log ends at {ends[at]}."
                )
                raise SeamError(message, "Correct `until`; an open transaction holds the log back.")
        return written
    if isinstance(source.until, EndAtTimestamp):
        time_ms = to_ms(source.until.timestamp)
        if time_ms > now_ms:
            message = f"Source `{source.name}` would end at {iso(time_ms)}, in the future."
            raise SeamError(message, "Write `until: latest`, or an earlier time.")
        found = log.offsets_for_time(time_ms)
        ends = {
            at: end if (offset := found[at]) is None else min(offset, end)
            for at, end in ends.items()
        }
    # What was read before may reach further than a time; the log's end is never before a start.
    return {at: max(end, start.get(at, 0)) for at, end in ends.items()}


def end_position(
    source: KafkaSource,
    newest: Mapping[TopicPartition, int],
    ends: Offsets,
    previous: EndPosition | None,
    *,
    lateness_ms: int,
    is_continued: bool,
) -> EndPosition:
    """The end position of a bounded Kafka source; its number of splits is not known yet.

    A next source on the same topics starts at exactly these offsets. Any other one goes by record
    time: of several partitions the one that lags decides up to where history is complete.

    Args:
        source: The declaration.
        newest: Highest record timestamp of each partition that has records (:func:`newest_read`).
        ends: First offset that is not read.
        previous: End position of the source before.
        lateness_ms: How far behind the newest record one may still be appended.
        is_continued: Whether the next source, if there is one, reads the same topics.

    Raises:
        SeamError: The next source would have to go by times, and there are none.
    """
    times = newest.values()
    is_dated = bool(newest) and min(times) >= 0
    event_time_ms = max(times) if is_dated else 0
    complete_through_ms = max(min(times) - lateness_ms, 0) if is_dated else 0
    if not is_continued and newest and not is_dated:
        message = f"Records of source `{source.name}` carry no timestamp: nothing tells its end."
        raise SeamError(message, "Let the next source read the same topic.")
    if not is_continued and not newest and previous is None:
        message = f"Source `{source.name}` has no records up to its end: nothing tells its end."
        raise SeamError(message, "Leave it out, or correct `start` and `until`.")
    if previous is not None:
        event_time_ms = max(event_time_ms, previous.event_time_ms)
        complete_through_ms = max(complete_through_ms, previous.complete_through_ms)
    return EndPosition(
        source=source.name,
        event_time_ms=event_time_ms,
        complete_through_ms=complete_through_ms,
        # Record timestamps are not event times, and not all records were looked at.
        event_times="sampled",
        offsets=HeldOffsets(next=ends, exact=True, holes={}) if is_continued else None,
        # What a snapshot holds is held by all that comes after it.
        sequence=None if previous is None else previous.sequence,
        snapshot=None if previous is None else previous.snapshot,
        splits=0,
        rows=None,
    )


def newest_read(
    log: Log, start: Mapping[TopicPartition, int], ends: Offsets
) -> dict[TopicPartition, int]:
    """Highest timestamp among the last records before the ends; never above the true highest one.

    Read, as Kafka's own answer (ListOffsets, MAX_TIMESTAMP) counts control records, which carry
    the time of their commit, and records beyond the end.

    Args:
        log: The log.
        start: First offset that is read.
        ends: First offset that is not.

    Returns:
        By partition; without those that have no records.
    """
    newest: dict[TopicPartition, int] = {}
    begun = log.log_start()
    firsts = {at: max(start.get(at, 0), begun[at]) for at in ends}
    left = {at: end for at, end in ends.items() if firsts[at] < end}
    tail = max(_TAIL_RECORDS // max(len(left), 1), 1)
    while left:
        begins = {at: max(end - tail, firsts[at]) for at, end in left.items()}
        for record in log.read(begins, tail, left):
            newest[record.at] = max(record.timestamp_ms, newest.get(record.at, -1))
        # Where the last offsets hold no records, look further back.
        left = {at: begins[at] for at in left if at not in newest and firsts[at] < begins[at]}
        tail *= 8
    return newest
