"""Interface of look-ups on a log: Kafka's, or a model of it in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sources.common.positions import Offsets, TopicPartition


@dataclass(frozen=True)
class LogRecord:
    """One record of the log.

    Attributes:
        partition: Topic and partition number.
        offset: Offset in the partition.
        timestamp_ms: Record timestamp in milliseconds; negative if the record has none.
        value: Value; None for a tombstone.
        key: Key, if there is one.
        headers: Names and values, in order.
    """

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None


class Log(Protocol):
    """Look-ups on all partitions of one or several topics, each one a bulk call."""

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """All partitions when the log was opened, sorted."""

    def log_start(self) -> Offsets:
        """Return the log start offset of each partition: the first one that is not deleted."""

    def log_end(self) -> Offsets:
        """Return the offset after the last record that the source's isolation level may read."""

    def high_watermark(self) -> Offsets:
        """Return the offset after the last record, open transactions included."""

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset whose record timestamp is at or after a time, or None."""

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Return the highest record timestamp (ms) of each partition; None without records."""

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        """Return the first ``limit`` records of each partition between ``start`` and ``end``."""

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record in one of the half-open ranges, by partition."""
