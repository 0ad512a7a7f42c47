"""Gaps at a hand-over: records that are neither in history nor read from the Kafka topic.

This module finds them by record times, :mod:`sources.kafka.start.offset_gaps` by offsets; both
refuse nothing. Others refuse a gap that Kafka's retention has made, unless the source declares
``on_gap: accept``:

- while history is read: :meth:`sources.kafka.retention.RetentionWatch.look`;
- when the start is decided: :func:`sources.kafka.start.declared_start.factory_for`;
- when a table is adopted: ``hybrid_extensions.adopt.position.start_at``.

What Kafka deletes after the start was decided is refused whatever ``on_gap`` says: by
:func:`sources.kafka.start.log_checks.check_in_log` before the first run from it, and by
:func:`sources.kafka.start.log_checks.check_not_deleted` before each later one.
"""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.durations import in_full
from sources.common.positions import EndPosition, Gap, Offsets, PartitionStart, TopicPartition
from sources.common.times import iso
from sources.common.topic_log import Log
from sources.kafka.ranges.end_offsets import newest_read
from sources.kafka.start.offset_gaps import gap, left_out_of_held

CLOSE_MS = 3_600_000
"""How far two clocks, or two pipes that carry the same rows, may be apart: one hour, in ms.

Or by ``allowed_lateness``, if that is longer.
"""

_FEW = 20  # partitions
_READ_RECORDS = 10_000


class GapFinder:
    """Search for gaps at one hand-over, by record times, offsets and the end of history.

    Every method returns an empty list if it finds no gap, writes nothing, and may raise
    ``UnavailableError`` if the broker does not answer, and ``InputError`` if it refuses.

    Args:
        log: Look-ups on the topics.
        previous: End position of the source before the topic, if there is one.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.
        now_ms: Time now, in milliseconds.
        is_declared: Whether people declared the time up to which history is complete, so that it
            was not computed from the highest event time of its rows.

    Attributes:
        distrusted: Name of the source before, once its end turned out to mean nothing; else None.
    """

    def __init__(
        self,
        log: Log,
        previous: EndPosition | None,
        lateness_ms: int,
        now_ms: int,
        *,
        is_declared: bool,
    ) -> None:
        self._log = log
        self._previous = previous
        self._lateness_ms = lateness_ms
        self._now_ms = now_ms
        self._is_declared = is_declared
        self.distrusted: str | None = None

    @property
    def tolerance_ms(self) -> int:
        """How far (ms) a record time may be from the expected one without counting as a gap.

        That is ``allowed_lateness``, but at least an hour.
        """
        return max(self._lateness_ms, CLOSE_MS)

    def behind_end(self, partitions: Mapping[TopicPartition, PartitionStart]) -> list[Gap]:
        """Return gaps where history seems to end long after the last record of the topic.

        Such an end is not believed: one row with a wrong clock may have moved it, so everything
        that is not read of the topic may be missing. Partitions that are read from offset 0 have no
        gap. An end time that people declared is believed, unless it lies in the future. Sets
        :attr:`distrusted` if there are gaps.

        Args:
            partitions: Start of each partition.
        """
        previous = self._previous
        if previous is None or previous.exact_offsets or previous.snapshot is not None:
            return []
        skipping = {at: part for at, part in partitions.items() if part.start > 0}
        through_ms = previous.complete_through_ms
        is_future = through_ms > self._now_ms
        if not skipping or (self._is_declared and not is_future):
            return []
        newest_ms = self._newest_ms(through_ms - self.tolerance_ms)
        if newest_ms is None or (not is_future and through_ms - newest_ms <= self.tolerance_ms):
            return []
        self.distrusted = previous.source
        than = (
            f"which is in the future (it is now {iso(self._now_ms)})"
            if is_future
            else f"but the newest record of the topic is of {iso(newest_ms)}"
        )
        return [
            gap(
                at,
                f"history, which ends at {iso(previous.event_time_ms)}, would be complete through "
                f"{iso(through_ms)}, {than}. So nothing shows that history holds the records "
                f"before offset {part.start}, where reading would start",
                from_ms=newest_ms,
                to_ms=through_ms,
                from_offset=part.log_start,
                to_offset=part.start,
            )
            for at, part in skipping.items()
        ]

    def deleted(self, time_ms: int, starts: Offsets, ends: Offsets) -> list[Gap]:
        """Return gaps where Kafka has deleted records that history does not cover.

        The log of a partition has to reach back to where history is complete, and further by
        ``lateness_ms``, since records may come out of order by so much. Empty if it does.

        Args:
            time_ms: Record time (Unix ms) that was looked up; used only without a source before.
            starts: First offset of each partition that is not deleted.
            ends: Log end of each partition.
        """
        previous = self._previous
        needed_ms = time_ms if previous is None else previous.complete_through_ms
        reach_ms = needed_ms - self._lateness_ms
        suspects = {partition: first for partition, first in starts.items() if first > 0}
        firsts = {record.partition: record for record in self._log.read(suspects, 1, ends)}
        gaps = []
        for partition, first in suspects.items():
            covered = f"history is complete through {iso(needed_ms)}"
            if previous is None:
                covered = f"the first record asked for is at {iso(needed_ms)}"
            if partition not in firsts:
                why = f"all its records before offset {first} are deleted, and {covered}"
                gaps.append(gap(partition, why, from_ms=needed_ms, to_offset=first))
            elif (left_ms := firsts[partition].timestamp_ms) >= reach_ms:
                length_ms = max(left_ms - needed_ms, 0)
                lost = f"the {in_full(length_ms)} between are in neither"
                if left_ms <= needed_ms:
                    late = in_full(self._lateness_ms)
                    lost = f"as records come up to {late} late, newer ones may be deleted"
                begin = f"the log starts at offset {firsts[partition].offset}, {iso(left_ms)}"
                why = f"{begin}; {covered}; {lost}"
                gaps.append(gap(partition, why, from_ms=needed_ms, to_ms=left_ms, to_offset=first))
        return gaps

    def skipped(self, partitions: Mapping[TopicPartition, PartitionStart]) -> list[Gap]:
        """Return gaps where a start at a declared time skips records that history may lack.

        Empty without a source before.

        Args:
            partitions: Start of each partition.
        """
        if self._previous is None:
            return []
        needed_ms = self._previous.complete_through_ms
        reached = f"history is complete through {iso(needed_ms)}"
        return self._left_out(partitions, needed_ms, reached, is_sure=False)

    def left_out_by_offsets(
        self, partitions: Mapping[TopicPartition, PartitionStart], starts: Offsets, ends: Offsets
    ) -> list[Gap]:
        """Return gaps between the end of history and declared start offsets.

        If the offsets that history holds are known exactly, they are compared. Otherwise record
        times are: a record before the start offset that is newer than the end of history by more
        than :attr:`tolerance_ms` is a gap. Empty without a source before.

        Args:
            partitions: Start of each partition.
            starts: First offset of each partition that is not deleted.
            ends: Log end of each partition.
        """
        previous = self._previous
        if previous is None:
            return []
        if held := previous.exact_offsets:
            return left_out_of_held(self._log, held, partitions, ends)
        if gaps := self.behind_end(partitions):
            return gaps
        if previous.snapshot is not None:
            return []
        end_ms = max(previous.event_time_ms, previous.complete_through_ms)
        newest_ms = self._newest_ms(end_ms)
        if newest_ms is not None and end_ms > newest_ms:
            # A declared time up to which history is complete stands for an end that is wrong.
            end_ms = previous.complete_through_ms
        end_ms += self.tolerance_ms
        reached = f"history ends at {iso(end_ms - self.tolerance_ms)}"
        reached_long = f"{reached}; the first record long after that"
        gaps = self._left_out(partitions, end_ms + 1, reached_long, is_sure=True)
        firsts = self._log.read({at: first for at, first in starts.items() if first > 0}, 1, ends)
        for record in firsts:
            if record.timestamp_ms > end_ms:
                first = starts[record.partition]
                why = (
                    f"{reached}, and the log starts at offset {record.offset}, "
                    f"{iso(record.timestamp_ms)}: records between may be deleted"
                )
                gaps.append(gap(record.partition, why, to_ms=record.timestamp_ms, to_offset=first))
        return gaps

    def unanswered(
        self,
        answers: Mapping[TopicPartition, int | None],
        starts: Offsets,
        time_ms: int,
        *,
        is_sure: bool = False,
    ) -> set[TopicPartition]:
        """Return partitions that may have records from a time on although Kafka found none.

        Kafka searches a single segment, which may be empty after a DeleteRecords request; the
        newest record's timestamp shows that there are later ones. Empty if the answers are right.

        Args:
            answers: First offset found by Kafka, by partition; None where it found none.
            starts: First offset of each partition that is not deleted.
            time_ms: The time that was asked for, in Unix milliseconds.
            is_sure: Whether to leave out partitions whose newest timestamp is unknown, because it
                is in an open transaction.
        """
        doubtful = [
            partition
            for partition, offset in answers.items()
            if offset is None and starts[partition] > 0
        ]
        newest = self._log.newest_ms() if doubtful else {}
        # An open transaction hides the newest record.
        return {
            partition
            for partition in doubtful
            if (not is_sure if (at_ms := newest[partition]) is None else at_ms >= time_ms)
        }

    def _left_out(
        self,
        partitions: Mapping[TopicPartition, PartitionStart],
        needed_ms: int,
        reached: str,
        *,
        is_sure: bool,
    ) -> list[Gap]:
        gaps = []
        answers = self._log.offsets_for_time(max(needed_ms, 0))
        starts = {partition: part.log_start for partition, part in partitions.items()}
        unanswered = self.unanswered(answers, starts, needed_ms, is_sure=is_sure)
        for partition, answer in answers.items():
            to = partitions[partition].start
            offset: int | None = starts[partition]
            if partition not in unanswered:
                offset = answer
                if answer is not None and answer < to:
                    offset = self._first_read(partition, answer, to, needed_ms)
            if offset is not None and offset < to:
                why = f"{reached}, which is offset {offset}; the start would be offset {to}"
                gaps.append(
                    gap(partition, why, from_ms=needed_ms, from_offset=offset, to_offset=to)
                )
        return gaps

    def _first_read(
        self, partition: TopicPartition, first: int, end: int, since_ms: int
    ) -> int | None:
        """Return the offset of the first record from a time on that is ever read; None without one.

        Kafka answers a look-up by time with control records and records of aborted transactions,
        too, which nobody reads.

        Args:
            partition: The partition.
            first: Kafka's answer.
            end: First offset that is not looked at.
            since_ms: The time, in Unix milliseconds.
        """
        # Nearly always it is the first one.
        limit = 1
        while records := self._log.read({partition: first}, limit, {partition: end}):
            for record in records:
                if record.timestamp_ms >= since_ms:
                    return record.offset
            first, limit = records[-1].offset + 1, _READ_RECORDS
        return None

    def _newest_ms(self, enough_ms: int) -> int | None:
        """Highest record time of the topics' last records, in ms; None if there are none.

        Of many partitions only the most recent ones are read if they are as late as is enough.
        """
        starts, ends, latest = self._log.log_start(), self._log.log_end(), self._log.newest_ms()
        ranked = sorted(ends, key=lambda at: latest.get(at) or 0, reverse=True)
        newest_ms: int | None = None
        for some in (ranked[:_FEW], ranked[_FEW:]):
            part = {at: ends[at] for at in some}
            found = newest_read(self._log, starts, part, self._now_ms).values()
            newest_ms = max([*found, *([] if newest_ms is None else [newest_ms])], default=None)
            if newest_ms is not None and newest_ms >= enough_ms:
                break
        return newest_ms
