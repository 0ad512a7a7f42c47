"""Numbers and times for people."""

import dagster as dg
import pytest

from orchestration.defs.show import metadata
from orchestration.display import (
    ago,
    count,
    estimated_duration,
    moment,
    readable_times,
    second,
    size,
    span,
    time_left,
)
from orchestration.supervision.rules.verdict import Finding
from sources.common.durations import duration

DAY_MS = 86_400_000
NOW_MS = 1_380_498_960_000


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (9_999, "9,999"), (12_345, "12.3 k"), (252_392, "252 k"), (1_234_567, "1.23 M")],
)
def test_large_numbers_have_three_digits(number: int, shown: str) -> None:
    assert count(number) == shown


def test_sizes_are_decimal() -> None:
    assert size(6_400_000) == "6.4 MB"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.3, "less than 1 s"), (59.6, "1 min"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")],
)
def test_a_time_is_told_in_its_two_largest_units(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.3, "10 s"),
        (21, "30 s"),
        (51, "1 min"),
        (61, "2 min"),
        (3_541, "1 h"),
        (6_001, "1 h 50 min"),
        (97_201, "1 d 4 h"),
        (300_000, "3 d 12 h"),
    ],
)
def test_an_estimate_is_rounded_up_as_it_is_no_more_exact_than_that(
    seconds: float, told: str
) -> None:
    assert estimated_duration(seconds) == told


@pytest.mark.parametrize(
    ("passed_ms", "shown"),
    [
        (-5_000, "now"),
        (900, "now"),
        (4_000, "4 s ago"),
        (299_000, "4 min ago"),
        (5 * 3_600_000, "5 h ago"),
        (3 * DAY_MS, "26 Sep 2013"),
    ],
)
def test_the_past_is_told_in_one_unit_and_long_ago_as_a_day(passed_ms: int, shown: str) -> None:
    assert ago(NOW_MS - passed_ms, NOW_MS) == shown


def test_times_and_ranges_of_days() -> None:
    assert moment(NOW_MS) == "29 Sep 2013 23:56"
    assert span(NOW_MS - DAY_MS, NOW_MS) == "28 Sep 2013 to 29 Sep 2013"
    assert span(NOW_MS, NOW_MS) == "29 Sep 2013"


def test_an_exact_time_is_told_to_the_second_and_beyond_if_it_has_more() -> None:
    assert second(NOW_MS) == "29 Sep 2013 23:56:00 UTC"
    assert second(NOW_MS + 4_005) == "29 Sep 2013 23:56:04.005 UTC"


def test_times_in_a_reason_are_told_as_all_others() -> None:
    assert readable_times("first record at or after 2013-09-29T23:56:00Z") == (
        "first record at or after 29 Sep 2013 23:56 UTC"
    )
    assert (
        readable_times("2013-09-29T23:56:04.005Z, offset 7")
        == "29 Sep 2013 23:56:04.005 UTC, offset 7"
    )


def test_a_length_of_time_is_in_words_in_a_check_and_a_number_that_can_be_plotted() -> None:
    found = Finding(
        name="waiting_time", passed=False, text="", value=407173927.712, limit=300, unit="s"
    )
    shown = dict(metadata.finding(found).metadata)
    assert [shown["value"], shown["limit"], shown["unit"]] == [
        dg.MetadataValue.int(407173928),
        dg.MetadataValue.int(300),
        dg.MetadataValue.text("s"),
    ]
    assert shown["value in words"] == dg.MetadataValue.text("4,712 d 15 h")
    assert shown["limit in words"] == dg.MetadataValue.text("5 min")


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "none"), (90.0, duration(90))])
def test_nothing_that_is_left_takes_no_time(seconds: float, shown: str) -> None:
    assert time_left(seconds) == shown
