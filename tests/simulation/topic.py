"""A topic in memory, and look-ups on it in place of Kafka's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sources.common.positions import Offsets, TopicPartition
from sources.common.topic_log import LogRecord
from sources.errors import UnavailableError
from tests.simulation.kernel import MS, S, active, in_simulation
from tests.simulation.world import current_world

NAME = "events"
PARTITIONS = 2


@dataclass(frozen=True)
class Row:
    """A row of the input: a number, which is its key, and its event time in ms since 1970."""

    number: int
    at_ms: int

    @property
    def value(self) -> bytes:
        """The row as the value of a record."""
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        return json.dumps({"id": f"k{self.number}", "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}).encode()


class Topic:
    """The records of the topic.

    Attributes:
        records: Rows by partition, in order of offset.
        lost: Share of look-ups that the broker does not answer.
    """

    def __init__(self) -> None:
        self.records: list[list[Row]] = [[] for _ in range(PARTITIONS)]
        self.lost = 0.0

    def append(self, row: Row) -> None:
        """Add a record."""
        self.records[row.number % PARTITIONS].append(row)

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for part in self.records for row in part]

    def ends(self) -> Offsets:
        """Return the offset after the last record of each partition."""
        return {at: len(self.records[at.partition]) for at in ALL}


ALL = [TopicPartition(NAME, number) for number in range(PARTITIONS)]


class SimulatedLog:
    """What the product asks of Kafka, by the names of :class:`KafkaLog`, whose place it takes."""

    def __init__(self, source: object, timeout_s: float = 0) -> None:
        _travel()
        self.servers = "kafka:9092"
        self.missing: list[str] = []
        self.partitions = list(ALL)

    def identities(self) -> dict[str, str]:
        _travel()
        return {NAME: "cluster/topic"}

    def log_start(self) -> Offsets:
        _travel()
        return dict.fromkeys(ALL, 0)

    def log_end(self) -> Offsets:
        _travel()
        return _topic().ends()

    def high_watermark(self) -> Offsets:
        _travel()
        return _topic().ends()

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        _travel()
        return {
            at: next(
                (n for n, row in enumerate(_topic().records[at.partition]) if row.at_ms >= time_ms),
                None,
            )
            for at in ALL
        }

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        _travel()
        return {
            at: max((row.at_ms for row in _topic().records[at.partition]), default=None)
            for at in ALL
        }

    def settings(self) -> dict[str, dict[str, str]]:
        _travel()
        found = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
        return {NAME: {**found, "retention.bytes": "-1", "cleanup.policy": "delete"}}

    def compacted(self) -> frozenset[str]:
        _travel()
        return frozenset()

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        _travel()
        return [
            LogRecord(at, offset, row.at_ms, row.value)
            for at, first in start.items()
            for offset, row in enumerate(_topic().records[at.partition])
            if first <= offset < min(first + limit, end[at])
        ]

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        _travel()
        return {
            at: first
            for at, parts in ranges.items()
            for first, end in parts[:1]
            if first < min(end, len(_topic().records[at.partition]))
        }


def _topic() -> Topic:
    return current_world().topic


def _travel() -> None:
    if not in_simulation():
        return
    kernel: Any = active()
    kernel.sleep(kernel.random.randrange(1 * MS, 20 * MS))
    kernel.crash_maybe()
    if kernel.random.random() < _topic().lost:
        kernel.sleep(3 * S)
        raise UnavailableError("The broker kafka:9092 does not answer.", "Try again once it does.")
