"""The launch form of a range: what an empty field means, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from hybrid_extensions.ranges.dagster import RangeConfig, range_of
from hybrid_extensions.ranges.metadata import rows_in_ranges
from sources.errors import InputError
from tests.orchestration.supervision.live_case import LiveCase


@pytest.mark.parametrize(
    ("form", "first", "beyond"),
    [
        ({"since": "2024-03-01", "until": "2024-03-05"}, 1, 5),
        ({"since": "2024-03-01"}, 1, 2),
        ({"until": "2024-03-05"}, 4, 5),
    ],
)
def test_a_field_that_is_empty_is_a_day_from_the_other(
    tmp_path: Path, form: dict[str, str], first: int, beyond: int
) -> None:
    found = range_of(LiveCase(tmp_path).loaded, RangeConfig.model_validate(form))
    assert found == (datetime(2024, 3, first, tzinfo=UTC), datetime(2024, 3, beyond, tzinfo=UTC))


def test_a_time_that_makes_no_sense_is_refused_by_its_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Field `until` of the launch form: `noon` is not a time"):
        range_of(LiveCase(tmp_path).loaded, RangeConfig(until="noon"))


def test_without_both_and_without_history_there_is_no_last_day(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no last day of it"):
        range_of(LiveCase(tmp_path).loaded, RangeConfig())


@pytest.mark.parametrize(
    ("rows", "passed", "told"),
    [
        ({"1 Mar": 5, "2 Mar": 1}, True, "2 ranges have rows."),
        ({"1 Mar": 5, "2 Mar": 0}, False, "The table has no rows in 1 range of 2: 2 Mar. If "),
        (
            dict.fromkeys(map(str, range(12)), 0),
            False,
            "in 12 ranges of 12: 0, 1, 2, 3, 4, 5, 6, 7",
        ),
        ({"1 Mar": None}, False, "Rows of ranges can't be counted"),
    ],
)
def test_ranges_without_rows_are_named_and_what_is_not_counted_does_not_pass(
    rows: dict[str, int | None], passed: bool, told: str
) -> None:
    found = rows_in_ranges("has_rows", rows)
    assert (found.passed, found.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert told in str(found.description)
