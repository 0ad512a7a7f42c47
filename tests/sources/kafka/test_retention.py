"""Retention: for how long the records that follow history are safe, and when that is too short."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from sources.common.positions import Offsets
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.retention import RetentionWatch, retention_ms
from tests.sources.kafka.model_log import ModelLog
from tests.sources.kafka.test_start_offsets import T0, T1, log, ms

BY_TIME = {"retention.ms": "60000", "cleanup.policy": "delete"}
FOR_EVER = {"retention.ms": "-1", "cleanup.policy": "delete"}


@dataclass
class Kept(ModelLog):
    """A log with the settings of its topic."""

    kept: dict[str, str] = field(default_factory=lambda: dict(BY_TIME))

    def settings(self) -> dict[str, dict[str, str]]:
        return {at.topic: self.kept for at in self.records}


def kept(asked: ModelLog, **settings: str) -> Kept:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return Kept(asked.records, asked.deleted_to, kept={**BY_TIME, **names})


class Watched:
    """A watch, with a clock in seconds after noon."""

    def __init__(self, asked: Kept, needed: Offsets, **declared: Any) -> None:
        self.log, self.now = asked, 0.0
        given = {"type": "kafka", "name": "live", "topic": "t", "headroom": "10 s", **declared}
        self.watch = RetentionWatch(
            KafkaSource.model_validate(given),
            cast("KafkaLog", asked),
            needed,
            lambda: ms(self.now),
        )

    def left(self, now: float) -> list[tuple[int, int, int]]:
        """Partition, offset and milliseconds left."""
        self.now = now
        return [(each.partition, each.offset, each.left_ms) for each in self.watch.look()]


def test_a_record_is_kept_for_the_retention_after_its_own_time() -> None:
    found = Watched(kept(log({T0: [0, 5, 10]})), {T0: 1})
    assert found.left(20) == [(0, 1, 45_000)]
    # Its time is read once.
    found.log.deleted_to = {T0: 1}
    assert found.left(70) == [(0, 1, -5_000)]


def test_the_partition_that_is_deleted_first_comes_first() -> None:
    found = Watched(kept(log({T0: [0, 30], T1: [10, 20]})), {T0: 1, T1: 0})
    assert found.left(40) == [(1, 0, 30_000), (0, 1, 50_000)]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (BY_TIME, 60_000),
        ({**BY_TIME, "retention.ms": "0"}, 0),
        (FOR_EVER, None),
        ({**BY_TIME, "cleanup.policy": "compact"}, None),
        ({**BY_TIME, "cleanup.policy": "compact,delete"}, 60_000),
    ],
)
def test_kafka_deletes_by_time_what_has_a_retention_and_that_policy(
    settings: dict[str, str], told: int | None
) -> None:
    assert retention_ms(settings) == told


def test_what_is_kept_for_ever_has_no_headroom() -> None:
    found = Watched(kept(log({T0: [0, 5]}), retention_ms="-1"), {T0: 0})
    assert found.left(1e6) == []
    assert found.watch.require("at 1 of 2 splits") is None


def test_what_is_not_appended_yet_is_not_watched() -> None:
    found = Watched(kept(log({T0: [0, 5]})), {T0: 2})
    assert found.left(1e6) == []
    # The log end is no record: that it is behind is no loss, whatever was deleted by then.
    found.log.deleted_to = {T0: 3}
    assert found.left(1e6) == []


def test_a_record_without_a_time_is_kept_for_no_known_time() -> None:
    asked = log({T0: [0, 5], T1: [5]})
    asked.records[T0] = [replace(each, timestamp_ms=-1) for each in asked.records[T0]]
    found = Watched(kept(asked), {T0: 0, T1: 0})
    assert found.left(20) == [(1, 0, 45_000)]
    # It stops no run, as if it had been written in 1969.
    alone = Watched(kept(ModelLog({T0: asked.records[T0]})), {T0: 0})
    assert alone.watch.require("at 1 of 2 splits") is None


def test_deletion_by_size_goes_on_at_the_speed_of_the_log_start() -> None:
    found = Watched(kept(log({T0: range(100)}), retention_ms="-1"), {T0: 50})
    found.log.deleted_to = {T0: 10}
    # 10 offsets in 20 s; 40 are left.
    assert found.left(20) == [(0, 50, 80_000)]


def test_of_time_and_size_the_earlier_one_counts() -> None:
    found = Watched(kept(log({T0: range(100)})), {T0: 50})
    found.log.deleted_to = {T0: 10}
    # By time, 60 s after second 50.
    assert found.left(20) == [(0, 50, 80_000)]
    assert found.left(80) == [(0, 50, 30_000)]


def test_a_needed_record_that_is_deleted_is_refused_unless_gaps_are_accepted() -> None:
    asked = kept(log({T0: [0, 5, 10, 15]}))
    refusing, accepting = (Watched(asked, {T0: 1}, on_gap=how) for how in ("fail", "accept"))
    asked.deleted_to = {T0: 3}
    with pytest.raises(
        SeamError, match="Kafka deleted 2 offsets from 1 on, needed after"
    ) as caught:
        refusing.left(20)
    assert (caught.value.fields["partition"], caught.value.fields["offset"]) == (0, 1)
    assert accepting.left(20) == []
    asked.deleted_to = {T0: 1}
    # It may be the log's first one, which goes next.
    assert refusing.left(20) == accepting.left(20) == [(0, 1, 0)]


def test_a_partition_that_is_gone_is_refused() -> None:
    found = Watched(kept(log({T0: [0], T1: [0]})), {T0: 0, T1: 0})
    del found.log.records[T1]
    with pytest.raises(SeamError, match="has no partition 1 any more, whose offset 0 is needed"):
        found.left(20)


def test_a_run_is_stopped_before_records_are_lost() -> None:
    found = Watched(kept(log({T0: [0, 5]})), {T0: 1})
    found.now = 55
    enough = found.watch.require("at 1 of 2 splits")
    assert enough is not None
    assert enough.left_ms == 10_000
    found.now = 55.001
    with pytest.raises(SeamError, match="Stopped before records are lost, at 1 of 2 splits"):
        found.watch.require("at 1 of 2 splits")
    accepting = Watched(kept(log({T0: [0, 5]})), {T0: 1}, on_gap="accept")
    accepting.now = 64
    told = accepting.watch.require("at 1 of 2 splits")
    assert told is not None
    assert told.left_ms == 1_000
