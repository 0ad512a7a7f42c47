"""Which rows belong to the windows that start in a range, and which windows have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sources.planning.event_windows import EventWindows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(number: int) -> datetime:
    return EPOCH + timedelta(microseconds=number)


@st.composite
def windows(draw: st.DrawFn) -> EventWindows:
    """Short ones, so that all of them can be looked at."""
    slide = draw(st.integers(1, 9))
    return EventWindows(
        length_us=draw(st.integers(slide, 30)),
        slide_us=slide,
        offset_us=draw(st.integers(-20, 20)),
        column="start",
        holds=draw(st.sampled_from(["start", "end"])),
    )


def starts_of(row: int, by: EventWindows) -> list[int]:
    """The starts of all windows that a row belongs to, tried one by one."""
    near = range(row - by.length_us - 1, row + 2)
    is_start = [start for start in near if (start - by.offset_us) % by.slide_us == 0]
    return [start for start in is_start if start <= row < start + by.length_us]


times = st.integers(-60, 60)


@given(windows(), times, st.integers(1, 40))
def test_exactly_the_rows_of_the_windows_that_start_in_the_range_are_read(
    by: EventWindows, since: int, length: int
) -> None:
    until = since + length
    needed = {
        row
        for row in range(since - 40, until + 40)
        if any(since <= start < until for start in starts_of(row, by))
    }
    found = by.read_for(at(since), at(until))
    if found is None:
        assert not needed
    else:
        assert needed == {n for n in range(-160, 200) if found.since <= at(n) < found.until}


@given(windows(), times, times)
def test_up_to_the_latest_end_all_windows_have_ended_and_the_next_one_has_not(
    by: EventWindows, since: int, final: int
) -> None:
    latest = by.latest_until(at(final))
    found = by.read_for(at(since), latest) if at(since) < latest else None
    assert found is None or found.until <= at(final)
    one_more = by.read_for(at(since), latest + timedelta(microseconds=1))
    if at(since) <= latest:
        assert one_more is not None
        assert one_more.until > at(final)


@given(windows(), times, st.integers(1, 40), st.integers(-90, 90))
def test_the_tables_column_selects_the_windows_that_start_in_the_range(
    by: EventWindows, since: int, length: int, start: int
) -> None:
    value = start + (by.length_us if by.holds == "end" else 0)
    low, high = by.in_column(at(since), at(since + length))
    assert (low <= at(value) < high) == (since <= start < since + length)


def test_a_range_since_the_year_one_touches_windows_from_then_on() -> None:
    day_us = 24 * 3_600_000_000
    daily = EventWindows(
        length_us=day_us, slide_us=day_us, offset_us=7, column="start", holds="start"
    )
    since = datetime.min.replace(tzinfo=UTC)
    assert daily.touched_by(since, EPOCH) == (since, EPOCH)
