"""Estimates and forecasts rest on what runs have told, over restarts; else they say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.progress.forecast import eta_s, rate
from spark_jobs.run_state.progress_log import MOST, ProgressLog, Sample
from tests.properties import examples


def log(*samples: tuple[str, int, int, int | None]) -> ProgressLog:
    """A log of samples: launch, second, done, left."""
    made = ProgressLog(unit="rows")
    for launch, second, done, left in samples:
        at_ms = second * 1000
        sample = Sample(launch_id=launch, at_ms=at_ms, done=done, left=left)
        made = made.with_sample(sample)
    return made


def test_a_rate_counts_all_launches_but_not_the_time_between_them() -> None:
    restarted = log(("a", 0, 0, 100), ("a", 10, 50, 50), ("b", 5000, 50, 50), ("b", 5010, 100, 0))
    assert rate(restarted) == 5


@pytest.mark.parametrize(
    "unknown", [log(), log(("a", 0, 5, 5)), log(("a", 0, 5, 5), ("b", 9, 9, 1))]
)
def test_a_rate_that_nothing_tells_is_unknown(unknown: ProgressLog) -> None:
    assert rate(unknown) is None
    assert eta_s(unknown) is None


def test_the_time_left_follows_the_pace_of_the_last_minutes_of_the_last_launch() -> None:
    slowed = log(
        ("a", 0, 0, 10_000), ("b", 10, 0, 10_000), ("b", 20, 9_000, 1_000),
        ("b", 4_000, 9_000, 1_000), ("b", 4_100, 9_500, 500),
    )  # fmt: skip
    assert eta_s(slowed) == 100


def test_a_stream_that_falls_behind_has_no_time_left_and_one_that_caught_up_has_zero() -> None:
    assert eta_s(log(("a", 0, 0, 10), ("a", 10, 5, 20))) is None
    assert eta_s(log(("a", 0, 0, None), ("a", 10, 5, None))) is None
    assert eta_s(log(("a", 0, 0, 10), ("a", 10, 5, 0))) == 0


@examples(100)
@given(st.integers(min_value=1, max_value=5 * MOST))
def test_the_samples_of_a_run_stay_few_and_the_newest_stay_dense(count: int) -> None:
    kept = log(*(("a", at, at, count - at) for at in range(count))).samples
    assert len(kept) <= MOST
    newest = [sample.at_ms // 1000 for sample in kept[-MOST // 4 :]]
    assert newest == list(range(count))[-len(newest) :]
    times = [sample.at_ms for sample in kept]
    assert times == sorted(set(times))
    assert times[0] == 0
