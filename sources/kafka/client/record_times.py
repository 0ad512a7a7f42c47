"""Look-ups by record timestamp that ignore records dated more than a day in the future."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import cached_property

from sources.common.durations import DAY_MS
from sources.common.positions import Offsets, TopicPartition
from sources.common.topic_log import Log

_READ_RECORDS = 10_000


def latest_ms(now_ms: int) -> int:
    """Return the highest plausible record timestamp, in Unix milliseconds: a day from now.

    Records with a later one come from a producer with a wrong clock, and are ignored by look-ups.
    The bounds of ``event_time`` are about event times and do not apply to record timestamps.

    Args:
        now_ms: Time now, in Unix milliseconds.
    """
    return now_ms + DAY_MS


class RecordTimes:
    """Look-ups by record timestamp in a range of offsets, ignoring records dated in the future.

    Kafka answers with the first record that is as new as the time asked for. One record dated 2099
    therefore answers for all records behind it. In a partition that has one, the timestamps behind
    it are read, once.

    Args:
        log: Look-ups on the topics.
        ends: First offset of each partition that is not read.
        now_ms: Time now, in milliseconds.
    """

    def __init__(self, log: Log, ends: Offsets, now_ms: int) -> None:
        self._log = log
        self._ends = ends
        self._latest_ms = latest_ms(now_ms)
        self._read: dict[TopicPartition, tuple[array[int], array[int]]] = {}

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at or after a time.

        Records dated in the future are ignored; None where no other record is that late. An offset
        may lie at or after the end of its partition's range.

        Args:
            time_ms: The time, in Unix milliseconds.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        answers = self._log.offsets_for_time(time_ms)
        for partition, first in self._from_future.items():
            if answers.get(partition) == first:
                offsets, highest = self._behind(partition, first)
                at = bisect_left(highest, time_ms)
                answers[partition] = offsets[at] if at < len(offsets) else None
        return answers

    @cached_property
    def _from_future(self) -> Offsets:
        """First record of each partition that is from the future, where there is one."""
        answers = self._log.offsets_for_time(self._latest_ms + 1)
        return {
            partition: offset
            for partition, offset in answers.items()
            if offset is not None and offset < self._ends.get(partition, 0)
        }

    def _behind(self, partition: TopicPartition, first: int) -> tuple[array[int], array[int]]:
        """Return offsets and timestamps of the records that are newer than all before them."""
        if partition not in self._read:
            offsets, highest = array("q"), array("q")
            start = first + 1
            end = {partition: self._ends[partition]}
            while records := self._log.read({partition: start}, _READ_RECORDS, end):
                for record in records:
                    newest = highest[-1] if highest else -1
                    if newest < record.timestamp_ms <= self._latest_ms:
                        offsets.append(record.offset)
                        highest.append(record.timestamp_ms)
                start = records[-1].offset + 1
            self._read[partition] = (offsets, highest)
        return self._read[partition]
