"""When the first micro-batch of a followed topic is small."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sources.common.positions import Offsets, TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.query.places.followed_topic_stream import FIRST_OFFSETS, is_small_at_first

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


class Log:
    """The ends of a topic's log."""

    def __init__(self, begin: Offsets, end: Offsets) -> None:
        self._begin, self._end = begin, end

    def log_start(self) -> Offsets:
        return self._begin

    def log_end(self) -> Offsets:
        return self._end


def is_small(
    start: Offsets, begin: Offsets, end: Offsets, rate: int | None = None, **declared: Any
) -> bool:
    document = {"type": "kafka", "name": "live", "topic": "events", "bootstrap_servers": "b:9092"}
    source = KafkaSource.model_validate({**document, **declared})
    log = cast(KafkaLog, Log(begin, end))
    return is_small_at_first(source, RateLimit(offsets=rate), log, start)


@pytest.mark.parametrize(
    ("start", "begin", "end", "small"),
    [
        ({FIRST: 10}, {FIRST: 0}, {FIRST: 10 + FIRST_OFFSETS}, False),
        ({FIRST: 10}, {FIRST: 0}, {FIRST: 11 + FIRST_OFFSETS}, True),
        # All partitions count together.
        (
            {FIRST: 0, SECOND: 0},
            {FIRST: 0, SECOND: 0},
            {FIRST: FIRST_OFFSETS, SECOND: 1},
            True,
        ),
        # One that appeared is read from what its log still holds: here nothing.
        ({FIRST: -2}, {FIRST: 2 * FIRST_OFFSETS}, {FIRST: 2 * FIRST_OFFSETS}, False),
        ({FIRST: -2}, {FIRST: 1}, {FIRST: 2 * FIRST_OFFSETS}, True),
    ],
)
def test_the_first_micro_batch_is_small_only_if_more_input_waits(
    start: Offsets, begin: Offsets, end: Offsets, *, small: bool
) -> None:
    assert is_small(start, begin, end) is small


def test_micro_batches_that_are_small_anyway_are_left_as_they_are() -> None:
    much = {FIRST: 10 * FIRST_OFFSETS}
    assert is_small({FIRST: 0}, {FIRST: 0}, much)
    assert not is_small({FIRST: 0}, {FIRST: 0}, much, rate=5000)
    assert not is_small({FIRST: 0}, {FIRST: 0}, much, max_offsets_per_batch=1000)
