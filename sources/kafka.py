"""What a Kafka topic says of itself: partitions, log start and end, offsets for a time, samples.

All look-ups are bulk calls over all partitions (Kafka protocol, ListOffsets).
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from sources.errors import InputError

LOCAL = "local"
TIMEOUT_S = 10.0

# librdkafka would print each refused connection to stderr.
_QUIET = logging.getLogger("hybrid.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def cache_folder() -> Path:
    """Where downloads and the local broker's address live: ``HYBRID_CACHE``, or below ``~``."""
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")


def local_address_file() -> Path:
    """Where the local broker writes its address: ``HYBRID_BROKER_FILE``, or in the cache."""
    return Path(os.environ.get("HYBRID_BROKER_FILE") or cache_folder() / "broker.json")


def resolve_bootstrap(servers: str) -> str:
    """The ``host:port`` list behind a pipeline's ``bootstrap_servers``.

    Raises:
        InputError: ``local`` was asked for and no local broker runs.
    """
    if servers != LOCAL:
        return servers
    try:
        return str(json.loads(local_address_file().read_text())["bootstrap_servers"])
    except (OSError, ValueError, KeyError):
        message = "No local Kafka broker is running."
        hint = "Start one with `hybrid broker`, or name `bootstrap_servers`."
        raise InputError(message, hint) from None


@dataclass(frozen=True)
class KafkaRecord:
    """One record as it lies in the log; ``timestamp_ms`` is the record timestamp."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


class KafkaTopic:
    """Look-ups on one topic.

    Args:
        bootstrap_servers: ``host:port`` list, or ``local``.
        topic: Name of the topic.

    Raises:
        InputError: The broker can't be reached, or has no such topic.
    """

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.servers = resolve_bootstrap(bootstrap_servers)
        self._admin = AdminClient({"bootstrap.servers": self.servers}, logger=_QUIET)
        try:
            metadata = self._admin.list_topics(timeout=TIMEOUT_S)
        except KafkaException as error:
            message = f"The Kafka broker {self.servers} can't be reached: {error.args[0].str()}."
            raise InputError(message, "Start it, or correct `bootstrap_servers`.") from None
        if topic not in metadata.topics:
            message = f"There is no topic `{topic}` on {self.servers}."
            raise InputError(message, "Create it, or correct `topic`.")
        self.partitions = sorted(metadata.topics[topic].partitions)

    def log_start(self) -> dict[int, int]:
        """First offset that is still there, by partition."""
        return self._offsets(OffsetSpec.earliest())

    def log_end(self) -> dict[int, int]:
        """Offset after the last record, by partition."""
        return self._offsets(OffsetSpec.latest())

    def offsets_for_time(self, time_ms: int) -> dict[int, int | None]:
        """First offset whose record timestamp is at or after a time; None where there is none."""
        found = self._offsets(OffsetSpec.for_timestamp(time_ms))
        return {number: offset if offset >= 0 else None for number, offset in found.items()}

    def settings(self) -> dict[str, str]:
        """The topic's configuration (``message.timestamp.type``, ``retention.ms`` …)."""
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        entries = self._admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in entries.items()}

    def read(
        self, start: Mapping[int, int], limit_per_partition: int, end: Mapping[int, int]
    ) -> list[KafkaRecord]:
        """A few records of each partition, from ``start`` on and below ``end``.

        Meant for samples; returns what came within the time limit.
        """
        wanted = {number: limit_per_partition for number in start if start[number] < end[number]}
        if not wanted:
            return []
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "hybrid-look-up",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            },
            logger=_QUIET,
        )
        records: list[KafkaRecord] = []
        try:
            consumer.assign([TopicPartition(self.topic, part, start[part]) for part in wanted])
            deadline = time.monotonic() + TIMEOUT_S
            while wanted and time.monotonic() < deadline:
                for message in consumer.consume(1000, timeout=0.2):
                    self._take(message, wanted, end, records)
        finally:
            consumer.close()
        return records

    @staticmethod
    def _take(
        message: Any, wanted: dict[int, int], end: Mapping[int, int], records: list[KafkaRecord]
    ) -> None:
        part, offset = message.partition(), message.offset()
        if part not in wanted:
            return
        if message.error() is not None or offset >= end[part]:
            del wanted[part]
            return
        records.append(KafkaRecord(part, offset, message.timestamp()[1], message.value()))
        wanted[part] -= 1
        if wanted[part] == 0 or offset == end[part] - 1:
            del wanted[part]

    def _offsets(self, spec: Any) -> dict[int, int]:
        asked = {TopicPartition(self.topic, number): spec for number in self.partitions}
        answers = self._admin.list_offsets(asked, request_timeout=TIMEOUT_S)
        try:
            return {part.partition: answer.result().offset for part, answer in answers.items()}
        except KafkaException as error:
            message = f"Topic `{self.topic}` does not tell its offsets: {error.args[0].str()}."
            raise InputError(message, "Check the broker and the permissions.") from None
