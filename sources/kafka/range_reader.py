"""Reading ranges of offsets, as tasks do: whole or not at all, finished by position."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError

from sources.common.positions import TopicPartition
from sources.errors import SeamError
from sources.kafka.client import QUIET, SILENCE_S
from sources.kafka.ranges import Split

MESSAGES = 10_000
# What is fetched beyond the end of a range is thrown away.
_QUEUE = {"queued.min.messages": 20_000, "queued.max.messages.kbytes": 32_768}


class RangeReader:
    """A consumer that reads one range after the other.

    Args:
        settings: Those of :func:`sources.kafka.client.consumer_settings`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._consumer = Consumer({**settings, **_QUEUE}, logger=QUIET)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self, split: Split) -> Iterator[list[Any]]:
        """The messages of a range, in order.

        It is over when the position has come to its end, never by a count: control records,
        aborted transactions and compaction take up offsets, and the last ones may be of that kind.

        Raises:
            SeamError: Kafka deleted records of it, or the broker stopped answering; names topic,
                partition and offset.
        """
        self._consumer.assign([confluent_kafka.TopicPartition(*split.at, split.first)])
        position, heard = split.first, time.monotonic()
        while position < split.end:
            messages = self._consumer.consume(MESSAGES, timeout=0.2)
            # What concerns no partition, such as a lost connection, librdkafka mends by itself.
            told = [message for message in messages if message.topic() is not None]
            if told:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                why = f"nothing came for {SILENCE_S:.0f} s"
                raise _failure(split.at, position, why, "Check the broker, and run again.")
            records = [message for message in told if message.error() is None]
            if len(records) < len(told):
                _require_end_of_partition(told, split.at, position)
            if told:
                # The end of a partition tells the offset that comes next.
                position = told[-1].offset() + (told[-1].error() is None)
            while records and records[-1].offset() >= split.end:
                records.pop()
            if records:
                yield records


def _require_end_of_partition(told: list[Any], at: TopicPartition, position: int) -> None:
    for message in told:
        error = message.error()
        if error is None:
            position = message.offset() + 1
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            hint = "It is lost to this generation: start over with a new state folder."
            raise _failure(at, position, "Kafka no longer holds it", hint)
        elif error.code() != KafkaError._PARTITION_EOF:
            why = str(error.str()).rstrip(".")
            raise _failure(at, position, why, "Check the broker, and run again.")


def _failure(at: TopicPartition, position: int, why: str, hint: str) -> SeamError:
    message = f"{str(at).replace('topic', 'Topic', 1)}: offset {position} is to be read, but {why}."
    return SeamError(message, hint)
