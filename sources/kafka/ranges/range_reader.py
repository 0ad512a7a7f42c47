"""Reader of ranges of offsets for Spark's tasks: a range is read completely or fails."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError

from sources.common.positions import TopicPartition
from sources.errors import HybridError, SeamError, UnavailableError
from sources.kafka.client.consumer import QUIET, SILENCE_S
from sources.kafka.client.kafka_errors import NEW_GENERATION, helps_to_wait
from sources.kafka.ranges.cut_ranges import Split

MESSAGES = 10_000
"""Most records of one list that is yielded, and by default of those that are fetched ahead."""
_AHEAD = (1_000, 100_000)


class RangeReader:
    """A Kafka consumer that reads one range of offsets after the other; not for several threads.

    Args:
        settings: librdkafka's, as :func:`sources.kafka.client.consumer.consumer_settings` returns
            them.
        ahead: Number of messages to fetch ahead; one outside of 1,000 to 100,000 is raised or
            lowered to that limit. What is fetched beyond the end of a range is discarded.
        silence_s: Seconds after which a broker that sends nothing is given up.
    """

    def __init__(
        self, settings: dict[str, Any], ahead: int = MESSAGES, silence_s: float = SILENCE_S
    ) -> None:
        ahead = min(max(ahead, _AHEAD[0]), _AHEAD[1])
        self._silence_s = silence_s
        self._consumer = Consumer({**settings, "queued.min.messages": ahead}, logger=QUIET)
        self._servers = str(settings["bootstrap.servers"])

    def close(self) -> None:
        """Close the consumer's connections to the brokers; it can't be used any more."""
        self._consumer.close()

    def rest(self) -> None:
        """Fetch nothing ahead until the next range is read; the connections stay open."""
        self._consumer.unassign()

    def read(self, split: Split) -> Iterator[list[Any]]:
        """Yield the records of a range of offsets in order, in lists (``confluent_kafka.Message``).

        Ends when the consumer's position has reached the end of the range, never by a count:
        control records, aborted transactions and compaction take up offsets, also the last ones. A
        range without a readable record yields nothing.

        Raises:
            SeamError: Kafka deleted records of the range, or does not let them be read; names
                topic, partition and offset.
            UnavailableError: The broker sent nothing for ``silence_s`` seconds, as where the log
                ends before the range does, or reports an error after which waiting helps.
        """
        self._consumer.assign([confluent_kafka.TopicPartition(*split.partition, split.first)])
        position, heard, is_at_end = split.first, time.monotonic(), False
        while position < split.end:
            # It returns with as many, or after the time.
            count = min(MESSAGES, split.end - position)
            with _without_cycles_collected():
                messages = self._consumer.consume(count, timeout=0.2)
            records = received = [message for message in messages if message.error() is None]
            if len(records) < len(messages):
                # What concerns no partition, such as a lost connection, librdkafka mends by itself.
                received = [message for message in messages if message.topic() is not None]
                self._require_end_of_partition(received, split, position)
            if received:
                heard = time.monotonic()
            elif time.monotonic() - heard > self._silence_s:
                end = "its log, truncated or with an open transaction, has ended there"
                what = end if is_at_end else "nothing came"
                reason = f"{what} for {self._silence_s:.0f} s"
                raise self._unavailable(split, position, reason)
            if received:
                is_at_end = received[-1].error() is not None
                # The end of a partition has the offset that comes next.
                position = received[-1].offset() + (received[-1].error() is None)
            while records and records[-1].offset() >= split.end:
                records.pop()
            if records:
                yield records

    def _require_end_of_partition(self, received: list[Any], split: Split, position: int) -> None:
        for message in received:
            error = message.error()
            if error is None:
                position = message.offset() + 1
            elif error.code() != KafkaError._PARTITION_EOF:
                raise self._failure(error, split, position)

    def _failure(self, error: KafkaError, split: Split, position: int) -> HybridError:
        if helps_to_wait(error):
            return self._unavailable(split, position, str(error.str()).rstrip("."))
        topic, number = split.partition
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            message = f"{_next_record(split.partition, position)} Kafka no longer holds it."
            hint = (
                "Its row would be missing from the table, so reading stopped. Let the files of "
                f"history cover the deleted records, then {NEW_GENERATION}"
            )
        else:
            reason = str(error.str()).rstrip(".")
            message = f"{_next_record(split.partition, position)} {reason}."
            hint = (
                f"Check the broker {self._servers}, and that the user has the permission `Read` on "
                "the topic. `hybrid run P` resumes after the last commit."
            )
        return SeamError(message, hint, topic=topic, partition=number, offset=position)

    def _unavailable(self, split: Split, position: int, reason: str) -> UnavailableError:
        topic, number = split.partition
        return UnavailableError(
            f"{_next_record(split.partition, position)} {reason}.",
            f"Check the broker {self._servers}. `hybrid run P` resumes after the last commit.",
            server=self._servers,
            topic=topic,
            partition=number,
            offset=position,
        )


@contextmanager
def _without_cycles_collected() -> Iterator[None]:
    """Keep Python from looking for cycles of garbage, which messages do not form.

    For each few hundred new objects it would look through others: half of the time of fetching.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _next_record(partition: TopicPartition, position: int) -> str:
    text = str(partition).replace("topic", "Topic", 1)
    return f"{text}: offset {position} is to be read, but"
