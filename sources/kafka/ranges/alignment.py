"""Alignment of a followed topic's partitions: none is read far ahead of another in record time.

FLIP-182's watermark alignment for one watermark of all partitions. In a stream that has one, the
fastest partition moves it, and rows of a slower one are late. So a micro-batch reads a fast
partition only up to the time of the slowest one plus the declared drift.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from sources.common.durations import span_ms
from sources.common.positions import Offsets, TopicPartition
from sources.common.times import now_ms
from sources.common.topic_log import Log
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.record_times import latest_ms
from sources.kafka.ranges.batching import no_timestamps
from sources.kafka.ranges.cut_ranges import Ranges, cut_evenly, ranges_before, size_of

# Where a look-up by time answers with a record that was read already, so many are read at most.
_SCANNED = 100_000
_PAGE = 10_000
_TAIL = 4


@dataclass(frozen=True)
class Drift:
    """How far partitions of a followed topic are apart, as the last micro-batch was planned.

    Attributes:
        drift_ms: Difference in ms between the last records of the fastest and of the slowest
            partition, idle ones left out; None if fewer than two are left.
        held_offsets: Number of offsets that wait because the slowest partition is not that far.
        slowest: The slowest partition; None if all are idle.
        at_ms: When this was found, in Unix ms.
    """

    drift_ms: int | None = None
    held_offsets: int = 0
    slowest: TopicPartition | None = None
    at_ms: int = field(default=0, compare=False)


class PartitionAlignment:
    """Ends of a followed topic's micro-batches, by which its partitions advance together.

    After each micro-batch, no record has been read that is newer than the next one of any partition
    by more than ``align.drift``, if records of each partition are in order of time. A partition is
    left out while it is idle: all of it is read, and nothing was appended for ``align.idle``, as
    long as this object knows. Records dated in the future are no measure
    (:func:`~sources.kafka.client.record_times.latest_ms`).

    Args:
        source: Declaration of the source, with ``align``.
        open_log: Opens its log; called again when partitions appear.
        clock: Returns the time now, in Unix milliseconds.

    Attributes:
        source: As given.
        is_needed: Whether partitions are aligned; False for a query without a watermark.
        drift: What the last call found; it is replaced, never changed.
    """

    def __init__(
        self, source: KafkaSource, open_log: Callable[[], Log], clock: Callable[[], int] = now_ms
    ) -> None:
        align = source.align
        assert align is not None  # others are not aligned
        self.source = source
        self.is_needed = True
        self.drift = Drift()
        self._open_log = open_log
        self._clock = clock
        self._drift_ms, self._idle_ms = span_ms(align.drift), span_ms(align.idle)
        self._log: Log | None = None
        # High watermark of each partition, and when it was first seen.
        self._grown: dict[TopicPartition, tuple[int, int]] = {}
        # Log end of each partition, and the time of its last record then.
        self._last: dict[TopicPartition, tuple[int, int]] = {}
        # Next offset of each partition, and the time of the first record from there on.
        self._next: dict[TopicPartition, tuple[int, int]] = {}

    def ends(self, starts: Offsets, latest: Offsets, limit: int) -> Offsets:
        """Return the offsets at which the next micro-batch ends, for each partition of the topic.

        One of which nothing is read ends where it starts, or at its log end if that is before. Asks
        the broker, and replaces :attr:`drift`.

        Args:
            starts: Offset at which each partition is read on; without those that appeared since.
            latest: Log end of each partition.
            limit: Highest number of offsets in a micro-batch, exceeded by rounding only.

        Raises:
            SeamError: Records carry no timestamp.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        log, begun = self._opened(latest), dict(starts)
        if latest.keys() - starts.keys():
            # One that this log does not know yet is read to its end.
            begun = {**latest, **log.log_start(), **starts}
        # Of a log that is shorter than what was read, Spark reports that records are lost.
        unread = {at: (begun[at], end) for at, end in latest.items() if begun[at] < end}
        if not self.is_needed:
            self.drift = Drift()
            batch = _first(unread, limit)
        else:
            batch = self._aligned(log, unread, latest, limit)
        return {
            at: batch[at][1] if at in batch else min(begun[at], end) for at, end in latest.items()
        }

    def _aligned(self, log: Log, unread: Ranges, latest: Offsets, limit: int) -> Ranges:
        times = self._times(log, unread.keys(), latest)
        slowest = min(times, key=lambda at: times[at], default=None)
        bound_ms = None if slowest is None else times[slowest] + self._drift_ms
        # Of the others, a record that is ahead of its own partition would hold all behind it.
        ahead = {
            at: each
            for at, each in unread.items()
            if bound_ms is not None and times.get(at, bound_ms) >= bound_ms
        }
        parts, is_whole = self._before(log, ahead, bound_ms or 0)
        within = {**{at: each for at, each in unread.items() if at not in ahead}, **parts}
        self.drift = Drift(
            drift_ms=max(times.values()) - min(times.values()) if len(times) > 1 else None,
            held_offsets=size_of(unread) - size_of(within),
            slowest=slowest,
            at_ms=self._clock(),
        )
        if is_whole and size_of(within) <= limit:
            return within
        begin_ms = min(self._first_times(log, within).values(), default=None)
        if begin_ms is None:
            return _first(within, limit)
        # A backlog: as many whole slices of time as fit, after which no partition is behind; or a
        # part of one, in which all records are.
        batch, slices = within, 1
        while bound_ms is None or begin_ms + slices * self._drift_ms < bound_ms:
            more, is_whole = self._before(log, unread, begin_ms + slices * self._drift_ms)
            is_too_much = not is_whole or size_of(more) > limit
            if slices > 1 and is_too_much:
                break
            batch, slices = more, 2 * slices
            if is_too_much or size_of(more) == size_of(unread):
                break
        return _first(batch, limit)

    def _times(self, log: Log, unread: Collection[TopicPartition], latest: Offsets) -> Offsets:
        """Return the time of the last record of each partition that is not idle, in Unix ms."""
        now = self._clock()
        for at, high in log.high_watermark().items():
            known, since_ms = self._grown.get(at, (-1, now))
            # The clock may have been set back.
            self._grown[at] = (high, min(since_ms, now) if known == high else now)
        waited = {at for at, (_, grown_ms) in self._grown.items() if now - grown_ms < self._idle_ms}
        active = [at for at in latest if at in unread or at in waited]
        grown = {at: latest[at] for at in active if self._last.get(at, (-1, 0))[0] != latest[at]}
        for at, time_ms in _last_times(log, grown, latest_ms(now)).items():
            if time_ms < 0:
                raise no_timestamps(self.source.name)
            self._last[at] = (latest[at], time_ms)
        return {at: self._last[at][1] for at in active if at in self._last}

    def _before(self, log: Log, ranges: Ranges, time_ms: int) -> tuple[Ranges, bool]:
        """Return the parts of ranges before each partition's first record at or after a time.

        And whether they are whole: false if a look-up misleads and too many records would have to
        be read to find the right offset, so that a part is shorter.
        """
        if not ranges:
            return {}, True
        answers, is_whole = log.offsets_for_time(time_ms), True
        # Kafka looks up in all of the log: what was read may hold a record or a commit as new.
        unclear = {
            at: ranges[at]
            for at, offset in answers.items()
            if offset is not None and at in ranges and offset <= ranges[at][0]
        }
        firsts = self._first_times(log, unclear)
        for at, (first, end) in unclear.items():
            if firsts.get(at, -1) < time_ms:
                answers[at], is_found = self._first_at(log, at, (first, end), time_ms)
                is_whole = is_whole and is_found
        return ranges_before(ranges, answers), is_whole

    def _first_at(
        self, log: Log, at: TopicPartition, offsets: tuple[int, int], time_ms: int
    ) -> tuple[int, bool]:
        """Return the offset of the first record at or after a time, and true; by reading records.

        Without such a record, the end of the offsets. If it is too far, an offset before it, and
        false.
        """
        (first, end), latest = offsets, latest_ms(self._clock())
        at_offset = first
        while at_offset < min(end, first + _SCANNED):
            records = log.read({at: at_offset}, _PAGE, {at: end})
            for record in records:
                if time_ms <= record.timestamp_ms <= latest:
                    return record.offset, True
            at_offset = records[-1].offset + 1 if records else end
        return at_offset, at_offset >= end

    def _first_times(self, log: Log, ranges: Ranges) -> Offsets:
        """Return the time of the first record of each range, in Unix ms.

        Without ranges that have no record, and those whose first one is dated in the future.
        """
        new = {at: each for at, each in ranges.items() if self._next.get(at, (-1,))[0] != each[0]}
        if new:
            starts = {at: first for at, (first, _) in new.items()}
            for record in log.read(starts, 1, {at: end for at, (_, end) in new.items()}):
                self._next[record.partition] = (starts[record.partition], record.timestamp_ms)
        latest = latest_ms(self._clock())
        return {
            at: found[1]
            for at, (first, _) in ranges.items()
            if (found := self._next.get(at, (-1, 0)))[0] == first and found[1] <= latest
        }

    def _opened(self, latest: Collection[TopicPartition]) -> Log:
        """Return the log; opened again if a partition has appeared since."""
        if self._log is None or not {*latest} <= {*self._log.partitions}:
            self._log = self._open_log()
        return self._log


def _last_times(log: Log, ends: Offsets, latest: int) -> Offsets:
    """Return the time of each partition's last record before an offset, in Unix ms.

    Records later than ``latest`` do not count; a partition without others is left out.
    """
    found: Offsets = {}
    begun, tail = log.log_start() if ends else {}, _TAIL
    left = {at: end for at, end in ends.items() if begun.get(at, end) < end}
    while left:
        begins = {at: max(end - tail, begun[at]) for at, end in left.items()}
        for record in log.read(begins, tail, left):
            if record.timestamp_ms <= latest:
                found[record.partition] = record.timestamp_ms
        # The last offsets may hold control records only.
        left = {at: begins[at] for at in left if at not in found and begun[at] < begins[at]}
        tail *= 8
    return found


def _first(ranges: Ranges, limit: int) -> Ranges:
    """Return the first batch of ranges that take from each partition in proportion to its size."""
    batches = cut_evenly(ranges, limit)
    return batches[0] if batches else {}
