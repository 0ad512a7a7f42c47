"""Ranges of time in a pipeline's file."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sources.config.table.time_ranges import TimeRanges


@pytest.mark.parametrize(
    ("field", "declared"),
    [
        ("start", {"start": "2024-01-15"}),
        ("end", {"start": "2024-01-01", "end": "2024-01-15"}),
    ],
)
def test_months_begin_and_end_with_whole_ones(field: str, declared: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=f"`{field}: 2024-01-15` is within a month"):
        TimeRanges.model_validate({"by": "month", **declared})
    assert TimeRanges.model_validate({"by": "day", **declared})


def test_a_range_has_to_end_after_its_start() -> None:
    with pytest.raises(ValidationError, match="is not after `start: 2024-01-02`"):
        TimeRanges.model_validate({"start": "2024-01-02", "end": "2024-01-02"})
    whole = {"by": "month", "start": "2024-01-01", "end": "2024-03-01"}
    assert TimeRanges.model_validate(whole).by == "month"
