"""A log without a broker: what Kafka promises of its look-ups, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sources.log import LogRecord
from sources.positions import Offsets, TopicPartition


@dataclass
class ModelLog:
    """Records by partition in offset order, with gaps where control records would be.

    Attributes:
        records: What was appended and is still known to the model.
        deleted_to: Log start: records below are gone.
        ends: Log end, where it lies beyond the last record.
    """

    records: dict[TopicPartition, list[LogRecord]]
    deleted_to: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return sorted(self.records)

    def left(self, at: TopicPartition) -> list[LogRecord]:
        first = self.deleted_to.get(at, 0)
        return [record for record in self.records[at] if record.offset >= first]

    def log_start(self) -> Offsets:
        return {at: self.deleted_to.get(at, 0) for at in self.records}

    def log_end(self) -> Offsets:
        return {
            at: max(records[-1].offset + 1 if records else 0, self.ends.get(at, 0))
            for at, records in self.records.items()
        }

    def high_watermark(self) -> Offsets:
        return self.log_end()

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        return {
            at: next((r.offset for r in self.left(at) if r.timestamp_ms >= time_ms), None)
            for at in self.records
        }

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        return [
            record
            for at in start
            for record in [r for r in self.left(at) if start[at] <= r.offset < end[at]][:limit]
        ]

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        found = {}
        for at, parts in ranges.items():
            inside = [r.offset for r in self.left(at) if any(a <= r.offset < b for a, b in parts)]
            if inside:
                found[at] = inside[0]
        return found
