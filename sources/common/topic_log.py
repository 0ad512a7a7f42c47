"""Interface of look-ups on the log of Kafka topics: Kafka's own, or a model of it in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sources.common.positions import Offsets, TopicPartition


@dataclass(frozen=True)
class LogRecord:
    """One record of a Kafka topic.

    Attributes:
        partition: Topic and partition number.
        offset: Offset in the partition.
        timestamp_ms: Record timestamp in milliseconds; negative if the record has none.
        value: Bytes of the value; None for a tombstone.
        key: Bytes of the key; None if the record has none, or if keys are not read.
        headers: Names and values, in order; None if the record has none, or if they are not read.
    """

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None


class Log(Protocol):
    """Look-ups on all partitions of one or several Kafka topics, each one a bulk call.

    The Kafka client's version raises UnavailableError if the broker does not answer.
    """

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """All partitions that the topics had when the log was opened, sorted.

        Look-ups answer for these; empty if no topic exists yet.
        """

    def log_start(self) -> Offsets:
        """Return the log start of each partition: the first offset that Kafka has not deleted.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def log_end(self) -> Offsets:
        """Return the log end of each partition: the offset after the last record that may be read.

        With ``read_committed``, records from an open transaction on may not be read yet.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def high_watermark(self) -> Offsets:
        """Return each partition's high watermark: the offset after its last record.

        Records of open transactions count, which the log end leaves out.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset of each partition whose record timestamp is at or after a time.

        Args:
            time_ms: The time, in Unix milliseconds.

        Returns:
            The offset by partition; None where no record is that late.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def compacted(self) -> frozenset[str]:
        """Return the names of those topics that Kafka compacts: it keeps a key's last record only.

        Empty if it compacts none of them.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Return the highest record timestamp of each partition, in Unix milliseconds.

        None for a partition without records.

        Raises:
            UnavailableError: The broker does not answer.
        """

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        """Read up to ``limit`` records of each partition, from a start offset up to an end offset.

        In order within a partition.

        Args:
            start: First offset of each partition that is read.
            limit: Highest number of records of each partition.
            end: First offset of each partition that is not read.

        Raises:
            UnavailableError: The broker stops answering.
            InputError: A start offset is deleted.
        """

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record that lies in one of some ranges.

        Partitions without such a record are left out.

        Args:
            ranges: Ascending ranges of each partition: first offset, and the one after the last.

        Raises:
            UnavailableError: The broker stops answering.
            InputError: A first offset is deleted.
        """
