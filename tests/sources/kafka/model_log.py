"""A log without a broker: what Kafka promises of its look-ups, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from sources.common.positions import Offsets, TopicPartition
from sources.common.topic_log import LogRecord
from sources.errors import InputError

A = TypeVar("A")


@dataclass
class ModelLog:
    """Records by partition in offset order, with gaps where control records would be.

    Attributes:
        records: What was appended and is still known to the model.
        deleted_to: Log start: records below are gone.
        ends: Log end, where it lies beyond the last record.
        markers: Offsets and timestamps of control records. They answer a look-up by time, but
            nobody ever reads them. A gap without a marker is what compaction leaves.
        segments: First offsets of the files that are still there; one file, if left out. A
            look-up by time settles for the first file with a timestamp that high, records that
            were deleted from it included, and looks no further if none of them is left.
        open_from: First offset of a transaction that is open: whoever reads committed records
            gets no further, and is told nothing of what lies there.
        compacted_topics: Topics of which a key's last record is kept only.
    """

    records: dict[TopicPartition, list[LogRecord]]
    deleted_to: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    markers: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    segments: dict[TopicPartition, list[int]] = field(default_factory=dict)
    open_from: Offsets = field(default_factory=dict)
    compacted_topics: frozenset[str] = frozenset()

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return sorted(self.records)

    def left(self, at: TopicPartition) -> list[LogRecord]:
        first = self.deleted_to.get(at, 0)
        return [record for record in self.records[at] if record.offset >= first]

    def append(self, at: TopicPartition, timestamp_ms: int) -> None:
        self.records[at].append(LogRecord(at, self._end(at), timestamp_ms, b"{}"))

    def log_start(self) -> Offsets:
        return {at: self.deleted_to.get(at, 0) for at in self.records}

    def log_end(self) -> Offsets:
        return {at: self.open_from.get(at, end) for at, end in self.high_watermark().items()}

    def high_watermark(self) -> Offsets:
        return {at: self._end(at) for at in self.records}

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        if time_ms < 0:
            # To Kafka, numbers below zero are questions of another kind, or nonsense.
            message = f"The log does not tell its offsets: invalid offset {time_ms}."
            raise InputError(message, "Ask for another one.")
        found = {at: self._offset_for_time(at, time_ms) for at in self.records}
        ends = self.log_end()
        return {
            at: None if offset is None or offset >= ends[at] else offset
            for at, offset in found.items()
        }

    def compacted(self) -> frozenset[str]:
        return self.compacted_topics

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Kafka counts what was deleted, as long as its file is there."""
        ends = self.log_end()
        newest = {at: max(self._dated(at), key=itemgetter(1), default=None) for at in self.records}
        return {
            at: None if found is None or found[0] >= ends[at] else found[1]
            for at, found in newest.items()
        }

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        wanted = {at: first for at, first in start.items() if first < end[at]}
        self._require(wanted)
        return [
            record
            for at, first in wanted.items()
            for record in [r for r in self.left(at) if first <= r.offset < end[at]][:limit]
        ]

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        self._require({at: parts[0][0] for at, parts in ranges.items()})
        found = {}
        for at, parts in ranges.items():
            inside = [r.offset for r in self.left(at) if any(a <= r.offset < b for a, b in parts)]
            if inside:
                found[at] = inside[0]
        return found

    def _end(self, at: TopicPartition) -> int:
        taken = [record.offset for record in self.records[at]]
        taken += [offset for offset, _ in self.markers.get(at, [])]
        return max(max(taken, default=-1) + 1, self.ends.get(at, 0), self.deleted_to.get(at, 0))

    def _require(self, wanted: Mapping[TopicPartition, int]) -> None:
        for at, first in wanted.items():
            if first < self.deleted_to.get(at, 0):
                message = f"`{at.topic}` can't be read: offset {first} is out of range."
                raise InputError(message, "Ask for another one.")

    def _dated(self, at: TopicPartition) -> list[tuple[int, int]]:
        """Offsets and timestamps of all that is in files."""
        records = [(record.offset, record.timestamp_ms) for record in self.records[at]]
        first = self.segments.get(at, [0])[0]
        return [each for each in sorted([*records, *self.markers.get(at, [])]) if each[0] >= first]

    def _offset_for_time(self, at: TopicPartition, time_ms: int) -> int | None:
        dated, firsts = self._dated(at), self.segments.get(at, [0])
        for first, end in zip(firsts, [*firsts[1:], self._end(at)], strict=True):
            hits = [offset for offset, ms in dated if first <= offset < end and ms >= time_ms]
            if hits:
                return next((o for o in hits if o >= self.deleted_to.get(at, 0)), None)
        return None


@dataclass
class ChangingLog:
    """A log that lives on while it is looked at.

    Attributes:
        now: The log as it stands.
        changes: What happens right after each look-up, one after the other.
        asked: The look-ups so far.
    """

    now: ModelLog
    changes: Iterable[Callable[[ModelLog], None]]
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._due = iter(self.changes)

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return self.now.partitions

    def log_start(self) -> Offsets:
        return self._answer("log_start", self.now.log_start())

    def log_end(self) -> Offsets:
        return self._answer("log_end", self.now.log_end())

    def high_watermark(self) -> Offsets:
        return self._answer("high_watermark", self.now.high_watermark())

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        return self._answer("offsets_for_time", self.now.offsets_for_time(time_ms))

    def compacted(self) -> frozenset[str]:
        return self._answer("compacted", self.now.compacted())

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        return self._answer("newest_ms", self.now.newest_ms())

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        return self._answer("read", self.now.read(start, limit, end))

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        return self._answer("first_within", self.now.first_within(ranges))

    def _answer(self, question: str, answer: A) -> A:
        self.asked.append(question)
        for change in self._due:
            change(self.now)
            break
        return answer
