"""The highest values of a day stay exact, in few intervals, however long a run lasts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sources.common.durations import DAY_MS
from spark_jobs.run_state.peaks_of_a_day import MOST, LastDay
from tests.properties import examples

MINUTE_MS = 60_000


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 40 * MINUTE_MS), st.integers(0, 9)), min_size=1))
def test_the_highest_value_is_that_of_the_last_day(steps: list[tuple[int, int]]) -> None:
    day, at_ms, seen = LastDay(), DAY_MS, []
    for step_ms, left in steps:
        at_ms += step_ms
        seen.append((at_ms, left))
        day = day.with_values(at_ms, left, left / 2)
    highest = max(each.left for each in day.intervals if each.left is not None)
    # An interval that a day ago ends in is kept as a whole.
    surely = max(left for at, left in seen if at > at_ms - DAY_MS)
    perhaps = max(left for at, left in seen if at > at_ms - DAY_MS - day.length_ms)
    assert surely <= highest <= perhaps
    assert max(each.per_s or 0 for each in day.intervals) == highest / 2


def test_a_week_takes_no_more_room_than_a_day_and_covers_all_of_it() -> None:
    day = LastDay()
    for minute in range(7 * 24 * 60):
        day = day.with_values(minute * MINUTE_MS, minute, None)
    assert len(day.intervals) <= MOST
    assert day.length_ms == 16 * MINUTE_MS
    covered_ms = day.intervals[-1].at_ms + day.length_ms - day.intervals[0].at_ms
    assert covered_ms >= DAY_MS
    assert all(each.per_s is None for each in day.intervals)
