"""What a log can be asked, whatever answers: Kafka, or a model of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sources.common.positions import Offsets, TopicPartition


@dataclass(frozen=True)
class LogRecord:
    """One record as it lies in the log; ``timestamp_ms`` is the record timestamp."""

    at: TopicPartition
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None


class Log(Protocol):
    """Look-ups on the partitions of one or several topics, each one bulk call for all of them."""

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """All of them, as they were when the log was opened; sorted."""

    def log_start(self) -> Offsets:
        """Log start offset: the first that is still there."""

    def log_end(self) -> Offsets:
        """Offset after the last record that a reader of the declared isolation gets to see."""

    def high_watermark(self) -> Offsets:
        """Offset after the last record, open transactions included."""

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """First offset whose record timestamp is at or after a time; None where there is none."""

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Highest record timestamp; None where there are no records."""

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        """The first ``limit`` records of each partition from ``start`` on and below ``end``."""

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        """Offset of the first record that lies in one of the half-open ranges, by partition."""
