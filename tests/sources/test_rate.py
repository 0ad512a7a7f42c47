"""Limits by second: what they mean for micro-batches, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sources.errors import InputError
from sources.file_source import FileSource
from sources.kafka_source import KafkaSource
from sources.rate import Batch, RateLimit, interval_ms, live_pace, parse_limit

numbers = st.integers(1, 10**9)


@given(st.one_of(st.none(), numbers), st.one_of(st.none(), numbers), numbers, numbers)
def test_batches_at_their_interval_keep_every_limit(
    size: int | None, files: int | None, largest: int, most: int
) -> None:
    limit = RateLimit.model_validate({"bytes": size, "files": files})
    interval = interval_ms(limit, Batch(bytes=largest, files=most))
    for allowed, taken in ((size, largest), (files, most)):
        assert allowed is None or taken * 1000 <= allowed * interval
    if size is None and files is None:
        assert interval == 0


@given(numbers, st.integers(0, 100_000), numbers, st.integers(0, 10_000))
def test_a_live_run_never_takes_in_more_than_its_limit(
    offsets: int, interval: int, most: int, partitions: int
) -> None:
    taken, pace = live_pace(RateLimit(offsets=offsets), interval, most, partitions)
    assert 1 <= taken <= most
    assert pace >= interval
    # Spark takes in one offset of each partition at least.
    assert max(taken, min(partitions, most)) * 1000 <= offsets * pace


def test_without_a_limit_a_live_run_is_as_declared() -> None:
    assert live_pace(RateLimit(), 200, 5000, 3) == (5000, 200)


def test_limits_are_written_as_people_write_sizes() -> None:
    assert parse_limit("50MiB", 3, None) == RateLimit(bytes=50 << 20, files=3)
    with pytest.raises(InputError, match="`fast` is no number of bytes"):
        parse_limit("fast", None, None)


def test_a_limit_that_means_nothing_for_its_source_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"`rate\.offsets` has no meaning for `h`"):
        FileSource.model_validate(
            {"type": "files", "name": "h", "path": "x", "format": "orc", "rate": {"offsets": 1}}
        )
    with pytest.raises(ValidationError, match=r"`rate\.bytes` has no meaning for `live`"):
        KafkaSource.model_validate(
            {"type": "kafka", "name": "live", "topic": "t", "rate": {"bytes": "1MB"}}
        )
