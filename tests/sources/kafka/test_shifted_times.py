"""Event times that are local times: a start by time is refused where it would be too late."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sources.common.positions import PartitionStart, StartPosition, TopicPartition
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.start.shifted_times import Shift, check_shift, find_shift
from tests.extensions import needs
from tests.minimal import minimal_model
from tests.sources.kafka.test_start_offsets import T0, history

MINUTE = 60_000
NOW = 1_720_000_000_000
START = StartPosition(
    source="live",
    evidence="timestamp",
    time_ms=NOW,
    partitions={T0: PartitionStart(start=1, log_start=0, log_end=9, reason="")},
)
TWO_HOURS = Shift(120 * MINUTE)
SCHEMA = {"id": "bigint", "at": "timestamp"}


def pipeline(lateness: str = "1 min", **live: Any) -> Pipeline:
    return minimal_model(
        {
            "type": "files",
            "name": "history",
            "path": "*",
            "format": "json",
            "schema": SCHEMA,
        },
        {"type": "kafka", "name": "live", "topic": "t", "schema": SCHEMA, **live},
        key=["id"],
        allowed_lateness=lateness,
    )


def shift(*ahead_ms: int, declared: Pipeline | None = None) -> Shift | None:
    """Tell the shift of records whose event times are so far ahead of their timestamps."""
    declared = declared or pipeline()
    (source,) = declared.topics
    records = [
        LogRecord(
            TopicPartition("t", 0),
            at,
            NOW + at * MINUTE,
            json.dumps({"id": at, "at": text(NOW + at * MINUTE + each)}).encode(),
        )
        for at, each in enumerate(ahead_ms)
    ]
    return find_shift(source, SCHEMA, declared.event_time, NOW, records)


def text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None).isoformat()


@pytest.mark.parametrize("quarters", [1, 8, 22])
def test_a_shift_is_the_same_for_all_records_in_whole_quarters_of_an_hour(quarters: int) -> None:
    offset = quarters * 15 * MINUTE
    # Some are written seconds after their event, one in ten much later.
    assert shift(*[offset] * 5) == Shift(offset)
    found = shift(*[offset - 700 * at for at in range(9)], offset - 20 * MINUTE)
    assert found == Shift(offset)


def test_a_minute_from_the_whole_quarter_is_near_enough_and_more_is_not() -> None:
    for off in (MINUTE, -MINUTE):
        assert shift(*[120 * MINUTE + off] * 6) == TWO_HOURS
    for off in (MINUTE + 1, -MINUTE - 1):
        assert shift(*[120 * MINUTE + off] * 6) is None


def test_local_times_that_are_utc_in_summer_are_never_ahead() -> None:
    assert shift(*[0] * 9, *[-60 * MINUTE] * 9) is None


@pytest.mark.parametrize("hours", [1, 2, 5.5])
def test_records_from_before_and_after_a_change_to_summer_time_have_two_shifts(
    hours: float,
) -> None:
    larger = int(hours * 60) * MINUTE
    winter = [larger - 60 * MINUTE] * 9
    assert shift(*winter, *[larger] * 9) == Shift(larger, is_seasonal=True)
    # One in ten may have neither: those that do are just enough.
    assert shift(*winter, *[larger] * 8, 7 * MINUTE) == Shift(larger, is_seasonal=True)
    assert shift(*winter, *[larger] * 7, *[7 * MINUTE] * 2) is None
    # As long as only a few have the larger one, or more have neither, nothing is known.
    assert shift(*winter, *[larger] * 3, *[7 * MINUTE] * 3) is None


@pytest.mark.parametrize(
    "ahead_ms",
    [
        [0] * 20,
        [-120 * MINUTE] * 20,
        [120 * MINUTE] * 4,
        [7 * MINUTE] * 20,
        [at * 15 * MINUTE for at in range(20)],
        [120 * MINUTE] * 10 + [0] * 2,
    ],
    ids=["none", "behind", "few records", "seven minutes", "growing", "some"],
)
def test_differences_that_are_not_a_time_zone_are_ignored(ahead_ms: list[int]) -> None:
    assert shift(*ahead_ms) is None


def check(declared: Pipeline, found: Shift | None = TWO_HOURS, **start: Any) -> None:
    source = declared.topics[0]
    assert isinstance(source, KafkaSource)
    check_shift(declared, source, history(NOW), START.model_copy(update=start), found)


def test_a_start_by_time_is_refused_with_the_numbers_and_the_ways_out() -> None:
    with pytest.raises(SeamError, match=r"120 minutes \(2 h\) later .* too late") as told:
        check(pipeline())
    for way in ("INTERVAL 120 MINUTES", "`allowed_lateness: 122 min`", "`start: earliest`"):
        assert way in told.value.hint


def test_with_summer_time_the_larger_shift_counts_and_no_offset_to_subtract_is_proposed() -> None:
    with pytest.raises(SeamError, match=r"120 minutes \(2 h\) later .* summer time") as told:
        check(pipeline("61 min"), Shift(120 * MINUTE, is_seasonal=True))
    assert "`allowed_lateness: 182 min`" in told.value.hint
    assert "INTERVAL" not in told.value.hint
    check(pipeline("120 min"), Shift(120 * MINUTE, is_seasonal=True))


@needs("expressions")
def test_the_ways_out_are_accepted() -> None:
    check(pipeline("122 min"))
    check(pipeline(start="earliest"))
    select = {"id": "id", "at": "CAST(at - INTERVAL 120 MINUTES AS TIMESTAMP)"}
    declared = pipeline(select=select)
    assert shift(*[120 * MINUTE] * 20, declared=declared) is None
    check(declared, None)


def test_a_start_by_offsets_needs_no_times() -> None:
    check(pipeline(), time_ms=None)
