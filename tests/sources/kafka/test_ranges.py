"""Ranges of offsets, cut: nothing lost, nothing twice, and no partition too far ahead."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from sources.common.positions import TopicPartition
from sources.common.topic_log import LogRecord
from sources.kafka.ranges.cut_ranges import Ranges, cut_by_time, cut_evenly, size_of, splits_of
from tests.properties import examples
from tests.sources.kafka.model_log import ModelLog

MINUTE_MS = 60_000
EXAMPLES = examples(200, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def logs(draw: st.DrawFn) -> ModelLog:
    """Partitions of unequal size and pace, with holes, records out of order, and empty ones."""
    records = {}
    for number in range(draw(st.integers(1, 4))):
        at = TopicPartition("t", number)
        time_ms, offset, found = draw(st.integers(0, 50)) * MINUTE_MS, 0, []
        for _ in range(draw(st.integers(0, 60))):
            time_ms += draw(st.sampled_from([0, 1, 30_000, 200_000, 9_000_000]))
            late_ms = draw(st.sampled_from([0, 0, 0, 90_000]))
            offset += draw(st.sampled_from([0, 0, 0, 1, 7]))
            found.append(LogRecord(at, offset, max(time_ms - late_ms, 0), b"{}"))
            offset += 1
        records[at] = found
    return ModelLog(records)


@st.composite
def ranges_of(draw: st.DrawFn, log: ModelLog) -> Ranges:
    found = {}
    for at, end in log.log_end().items():
        first = draw(st.integers(0, end))
        found[at] = (first, draw(st.integers(first, end)))
    return found


def require_whole(ranges: Ranges, batches: list[Ranges]) -> None:
    """Each offset is in exactly one batch, and they come in order."""
    for at, (first, end) in ranges.items():
        parts = [batch[at] for batch in batches if at in batch]
        assert all(low < high for low, high in parts)
        assert [low for low, _ in parts] + [end] * (first < end) == (
            [first] * (first < end) + [high for _, high in parts]
        )


@EXAMPLES
@given(st.data(), st.integers(1, 100))
def test_in_proportion_each_offset_is_in_exactly_one_batch(data: st.DataObject, limit: int) -> None:
    ranges = data.draw(ranges_of(data.draw(logs())))
    batches = cut_evenly(ranges, limit)
    require_whole(ranges, batches)
    assert all(size_of(batch) < limit + len(ranges) for batch in batches)
    assert all(batches)


@EXAMPLES
@given(st.data(), st.integers(1, 100), st.sampled_from([1, MINUTE_MS, 60 * MINUTE_MS]))
def test_by_time_each_offset_is_in_exactly_one_batch_and_no_partition_is_ahead(
    data: st.DataObject, limit: int, drift_ms: int
) -> None:
    log = data.draw(logs())
    ranges = data.draw(ranges_of(log))
    begin_ms = min((record.timestamp_ms for record in read(log, ranges)), default=0)
    batches = cut_by_time(ranges, limit, drift_ms, begin_ms, log.offsets_for_time)
    require_whole(ranges, batches)
    assert all(size_of(batch) < limit + len(ranges) for batch in batches)
    event(f"batches: {min(len(batches), 5)}")
    for done in range(1, len(batches)):
        reached = max((r.timestamp_ms for b in batches[:done] for r in read(log, b)), default=0)
        # What no partition has reached: its first record that is still to come.
        left = {
            at: min(b[at][0] for b in batches[done:] if at in b) for b in batches[done:] for at in b
        }
        for at, first in left.items():
            behind = next(iter(read(log, {at: (first, ranges[at][1])})), None)
            if behind is not None and behind.timestamp_ms > newest_before(log, at, first):
                assert reached - behind.timestamp_ms <= drift_ms


def read(log: ModelLog, ranges: Ranges) -> list[LogRecord]:
    return [
        r for at, (first, end) in ranges.items() for r in log.left(at) if first <= r.offset < end
    ]


def newest_before(log: ModelLog, at: TopicPartition, offset: int) -> int:
    """Highest timestamp that the partition itself has before an offset: older ones are late."""
    return max((r.timestamp_ms for r in log.left(at) if r.offset < offset), default=-1)


def test_a_long_time_with_few_records_takes_few_look_ups() -> None:
    at = TopicPartition("t", 0)
    year_ms = 365 * 24 * 60 * MINUTE_MS
    log = ModelLog({at: [LogRecord(at, n, n * year_ms // 1000, b"") for n in range(1000)]})
    asked: list[int] = []

    def look_up(time_ms: int) -> dict[TopicPartition, int | None]:
        asked.append(time_ms)
        return log.offsets_for_time(time_ms)

    batches = cut_by_time({at: (0, 1000)}, 100, 10 * MINUTE_MS, 0, look_up)
    assert len(batches) < 20
    assert len(asked) < 50


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_splits_of_a_batch_cover_it(limit: int) -> None:
    batch = {TopicPartition("t", 0): (5, 105), TopicPartition("u", 3): (0, 3)}
    splits = splits_of(batch, limit)
    for at, (first, end) in batch.items():
        own = [split for split in splits if split.partition == at]
        assert (own[0].first, own[-1].end) == (first, end)
        assert all(one.end == other.first for one, other in pairwise(own))
        assert all(split.end - split.first <= limit for split in own)
