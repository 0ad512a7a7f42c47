"""Limits by second: what they mean for micro-batches, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ByteSize, ValidationError

from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import Batch, RateLimit, interval_ms, live_pace, parse_limit
from sources.errors import InputError

numbers = st.integers(1, 10**9)


limits = st.one_of(st.none(), numbers)


@given(st.tuples(limits, limits, limits), st.tuples(numbers, numbers, numbers))
def test_batches_at_their_interval_keep_every_limit(
    limit: tuple[int | None, ...], largest: tuple[int, int, int]
) -> None:
    names = ("bytes", "files", "rows")
    declared = RateLimit.model_validate(dict(zip(names, limit, strict=True)))
    interval = interval_ms(declared, Batch(*largest))
    for allowed, taken in zip(limit, largest, strict=True):
        assert allowed is None or taken * 1000 <= allowed * interval
    if not any(limit):
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
    assert parse_limit("50MiB", files=3, rows=4) == RateLimit(
        bytes=ByteSize(50 << 20), files=3, rows=4
    )
    with pytest.raises(InputError, match=r"`fast` is not a number of bytes\. Nothing was"):
        parse_limit("fast")


def test_a_limit_that_means_nothing_for_its_source_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"`rate\.offsets` has no meaning for `h`"):
        FileSource.model_validate(
            {"type": "files", "name": "h", "path": "x", "format": "orc", "rate": {"offsets": 1}}
        )
    with pytest.raises(ValidationError, match=r"`rate\.bytes` has no meaning for `live`"):
        KafkaSource.model_validate(
            {"type": "kafka", "name": "live", "topic": "t", "rate": {"bytes": "1MB"}}
        )


FILES = {"type": "files", "name": "h", "path": "x"}


@pytest.mark.parametrize("form", ["json", "csv", "avro", "text"])
def test_rows_are_no_limit_for_files_that_do_not_tell_them(form: str) -> None:
    declared = {**FILES, "format": form, "rate": {"rows": 1}}
    declared |= {"schema": {"t": "timestamp"}} if form in ("json", "csv") else {}
    with pytest.raises(ValidationError) as caught:
        FileSource.model_validate(declared)
    told = (
        f"no meaning for `h`, whose {form} files do not record how many rows they hold. Remove "
        "`rows`, and limit `bytes` or `files` per second instead."
    )
    assert told in str(caught.value)
    # The rest still does.
    FileSource.model_validate({**declared, "rate": {"bytes": 1, "files": 1}})


@pytest.mark.parametrize("form", ["parquet", "delta", "orc"])
def test_rows_are_a_limit_for_files_that_tell_them(form: str) -> None:
    source = FileSource.model_validate({**FILES, "format": form, "rate": {"rows": 500}})
    assert source.rate == RateLimit(rows=500)
