"""End offsets of a bounded Kafka source, and its end position for the hand-over after it."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.positions import EndPosition, HeldOffsets, Offsets, TopicPartition
from sources.common.times import iso, to_ms
from sources.common.topic_log import Log
from sources.config.source.kafka_options import EndAtOffsets, EndAtTimestamp
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.record_times import RecordTimes, latest_ms
from sources.kafka.start.log_checks import written_offsets

NOTHING_READ = "Nothing of this source was read."
_AND_RUN = "then run the pipeline again: `hybrid run P`."
_TAIL_RECORDS = 100


def resolve_ends(
    source: KafkaSource, log: Log, start: Mapping[TopicPartition, int], now_ms: int
) -> Offsets:
    """Return the exclusive end offset of each partition that ``until`` declares.

    Called by the plan, and once more at the hand-over, unless the plan has decided the end.
    ``latest`` stands for the log end, declared offsets for themselves, a declared time for the
    first record at or after it (ignoring records dated in the future), or the log end without one.
    A partition whose end is before its start ends at its start: nothing of it is read.

    Args:
        source: Declaration of a bounded source: one with ``until``.
        log: Look-ups on its topics.
        start: First offset of each partition that is read; 0 for a partition that was added since
            the start was decided.
        now_ms: Time now, in Unix milliseconds.

    Raises:
        SeamError: A declared time lies in the future; or declared offsets leave out a partition,
            name one that does not exist, or are before the start or beyond the log end.
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    ends = log.log_end()
    if isinstance(source.until, EndAtOffsets):
        what = f"The end offsets of source `{source.name}`"
        written = written_offsets(source.until.offsets, log.partitions, what)
        for partition, end in written.items():
            if not start.get(partition, 0) <= end <= ends[partition]:
                message = (
                    f"Source `{source.name}` would end at offset {end} of {partition}, where it "
                    f"starts at offset {start.get(partition, 0)}; the log ends at "
                    f"{ends[partition]}. {NOTHING_READ}"
                )
                hint = (
                    f"Declare an offset from {start.get(partition, 0)} to {ends[partition]} for "
                    f"this partition under `until`; {_AND_RUN} If the topic holds later records, a "
                    "transaction is open and keeps the log end back: run again when it has ended."
                )
                topic, number = partition
                raise SeamError(
                    message, hint, source=source.name, topic=topic, partition=number, offset=end
                )
        return written
    if isinstance(source.until, EndAtTimestamp):
        time_ms = to_ms(source.until.timestamp)
        if time_ms > now_ms:
            message = (
                f"Source `{source.name}` would end at {iso(time_ms)}, in the future: it is now "
                f"{iso(now_ms)}. {NOTHING_READ}"
            )
            hint = (
                f"Declare `until: latest`, or a time before now under `until.timestamp`; {_AND_RUN}"
            )
            raise SeamError(message, hint, source=source.name, field="until", value=iso(time_ms))
        answers = RecordTimes(log, ends, now_ms).offsets_for_time(time_ms)
        ends = {
            partition: end if (offset := answers[partition]) is None else min(offset, end)
            for partition, end in ends.items()
        }
    # What was read before may reach further than a time; the log's end is never before a start.
    return {partition: max(end, start.get(partition, 0)) for partition, end in ends.items()}


def end_position(
    source: KafkaSource,
    newest: Mapping[TopicPartition, int],
    ends: Offsets,
    previous: EndPosition | None,
    *,
    lateness_ms: int,
    is_continued: bool,
) -> EndPosition:
    """Return the end position of a bounded Kafka source, by which the next source starts.

    A next source on the same topics starts at exactly these offsets. The start of any other one is
    decided by record time: the partition that lags most decides how far history is complete. The
    number of splits is 0 and has to be set by the caller.

    Args:
        source: Declaration of the source.
        newest: Highest record timestamp of each partition that has records (:func:`newest_read`).
        ends: First offset of each partition that is not read.
        previous: End position of the source before; None for the first source of the chain.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.
        is_continued: Whether the next source, if there is one, reads the same topics.

    Raises:
        SeamError: The next source reads other topics, so that it would have to start by time; and
            records carry no timestamps, or there are neither records nor a source before.
    """
    times = newest.values()
    is_dated = bool(newest) and min(times) >= 0
    event_time_ms = max(times) if is_dated else 0
    complete_through_ms = max(min(times) - lateness_ms, 0) if is_dated else 0
    if not is_continued and not is_dated and (newest or previous is None):
        what = f"Source `{source.name}` has no records up to its end"
        way = "Correct `start` and `until` so that the source has records, or remove it"
        if newest:
            what = f"Records of source `{source.name}` carry no timestamp"
            way = "Let the next source read the same topics: it then starts at exact offsets"
        message = (
            f"{what}: its end time is unknown, by which the next source, of other topics, would "
            f"start. {NOTHING_READ}"
        )
        raise SeamError(message, f"{way}; {_AND_RUN}", source=source.name)
    if previous is not None:
        event_time_ms = max(event_time_ms, previous.event_time_ms)
        complete_through_ms = max(complete_through_ms, previous.complete_through_ms)
    return EndPosition(
        source=source.name,
        event_time_ms=event_time_ms,
        complete_through_ms=complete_through_ms,
        # Record timestamps are not event times, and not all records were read.
        event_times="sampled",
        offsets=HeldOffsets(next=ends, exact=True, holes={}) if is_continued else None,
        # What a snapshot holds is held by all that comes after it.
        sequence=None if previous is None else previous.sequence,
        snapshot=None if previous is None else previous.snapshot,
        splits=0,
        rows=None,
    )


def newest_read(
    log: Log, start: Mapping[TopicPartition, int], ends: Offsets, now_ms: int
) -> dict[TopicPartition, int]:
    """Return how far in time a bounded source reads: the highest record timestamp by partition.

    In Unix milliseconds. Only the last records before the end offset are looked at, so an earlier
    one may be higher still. Records from the future are ignored
    (:func:`~sources.kafka.client.record_times.latest_ms`). Kafka's own answer (ListOffsets,
    MAX_TIMESTAMP) includes control records, and records beyond the end.

    Args:
        log: Look-ups on the topics.
        start: First offset of each partition that is read.
        ends: First offset of each partition that is not read.
        now_ms: Time now, in Unix milliseconds.

    Returns:
        Timestamp by partition, -1 if its records carry none; partitions without records are left
        out.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    newest: dict[TopicPartition, int] = {}
    limit_ms = latest_ms(now_ms)
    begun = log.log_start()
    firsts = {partition: max(start.get(partition, 0), begun[partition]) for partition in ends}
    left = {partition: end for partition, end in ends.items() if firsts[partition] < end}
    tail = max(_TAIL_RECORDS // max(len(left), 1), 1)
    while left:
        begins = {partition: max(end - tail, firsts[partition]) for partition, end in left.items()}
        for record in log.read(begins, tail, left):
            if record.timestamp_ms <= limit_ms:
                before = newest.get(record.partition, -1)
                newest[record.partition] = max(record.timestamp_ms, before)
        # Where the last offsets hold no records that count, look further back.
        left = {
            partition: begins[partition]
            for partition in left
            if partition not in newest and firsts[partition] < begins[partition]
        }
        tail *= 8
    return newest
