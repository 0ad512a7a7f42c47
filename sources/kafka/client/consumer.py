"""Consumers of ranges of offsets: no group, no commits; a broker silent for 30 s is given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from sources.common.login.security import client_settings
from sources.common.positions import TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import UnavailableError
from sources.kafka.client.address import resolve_bootstrap
from sources.kafka.client.kafka_errors import request_failed

# How long a consumer waits for more records than it has.
_POLL_S = 0.05
SILENCE_S = 30.0
"""Seconds after which a broker that sends nothing is given up."""

QUIET = logging.getLogger("hybrid.librdkafka")
"""Logger without output for librdkafka, which would print each refused connection to stderr."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def consumer_settings(source: KafkaSource) -> dict[str, Any]:
    """Return librdkafka's settings of a consumer that reads ranges of offsets.

    It joins no consumer group, commits no offsets, and fails on a deleted offset instead of
    skipping to another one.

    Args:
        source: Declaration of the source.

    Returns:
        Settings of librdkafka, secrets in plain text: not to be printed or stored.

    Raises:
        InputError: A file of ``security`` can't be read or contains no certificate or key in PEM,
            its encryption contradicts ``key_password``, or the extra ``msk`` is not installed.
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
    """
    return {
        **source.properties.of_librdkafka,
        **client_settings(source.security),
        "bootstrap.servers": resolve_bootstrap(source.bootstrap_servers),
        "group.id": "hybrid-look-up",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": source.isolation,
        # With many partitions and few records, don't wait for more of them.
        "fetch.wait.max.ms": 50,
        # librdkafka pauses for a second once its queue is full; the queue is empty before that.
        "fetch.queue.backoff.ms": 10,
    }


def scan(
    source: KafkaSource,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    take: Callable[[TopicPartition, Any], bool],
) -> None:
    """Read a range of offsets of each partition, and pass each record to a function.

    A partition is finished by position, never by count: control records and compaction take up
    offsets. Without an offset to read, no broker is asked.

    Args:
        source: Declaration of the source.
        start: First offset of each partition.
        end: Offset after the last one to read, of each partition in ``start``.
        take: Called with partition and message (``confluent_kafka.Message``), in order within a
            partition; if it returns False, no more of the partition is read.

    Raises:
        InputError: The broker refuses, or an offset in ``start`` is deleted.
        UnavailableError: The broker sends nothing for :data:`SILENCE_S` seconds.
    """
    remaining = {partition for partition in start if start[partition] < end[partition]}
    if not remaining:
        return
    settings = consumer_settings(source)
    servers = settings["bootstrap.servers"]
    consumer = Consumer({**settings, "error_cb": _ignore}, logger=QUIET)
    try:
        consumer.assign([confluent_kafka.TopicPartition(*each, start[each]) for each in remaining])
        heard = time.monotonic()
        while remaining:
            messages = consumer.consume(10_000, timeout=_POLL_S)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                message = (
                    f"Source `{source.name}`: the Kafka broker {servers} has sent nothing for "
                    f"{SILENCE_S:.0f} s while `{source.subscription}` was read."
                )
                hint = "Check that the broker runs, then try again."
                raise UnavailableError(message, hint, source=source.name, server=servers)
            steps = [_step(message, remaining, end, take) for message in messages]
            finished = [partition for partition in steps if partition is not None]
            if finished and remaining:
                consumer.incremental_unassign(
                    [confluent_kafka.TopicPartition(*each) for each in finished]
                )
    except KafkaException as error:
        raise request_failed(source, "Records can't be read", error, "Read") from None
    finally:
        consumer.close()


def _ignore(_: KafkaError) -> None:
    """Leave lost connections to librdkafka, which restores them."""


def _step(
    message: Any,
    remaining: set[TopicPartition],
    end: Mapping[TopicPartition, int],
    take: Callable[[TopicPartition, Any], bool],
) -> TopicPartition | None:
    """Process a message; return its partition if that is finished by it."""
    partition = TopicPartition(message.topic(), message.partition())
    if partition not in remaining:
        return None
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    offset = message.offset()
    wants_more = True
    if error is None and offset < end[partition]:
        wants_more = take(partition, message)
    # At the end of a partition the offset is that of the record that will come next.
    if wants_more and offset + (error is None) < end[partition]:
        return None
    remaining.discard(partition)
    return partition
