"""Durations in a pipeline's file."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from sources.common.durations import Duration, span_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1.5 h", 5_400_000),
        ("2 milliseconds", 2),
        ("2 minutes", 120_000),
        ("PT10M", 600_000),
        ("1:30:00", 5_400_000),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_in_iso_8601(text: str, ms: int) -> None:
    assert span_ms(TypeAdapter(Duration).validate_python(text)) == ms


@pytest.mark.parametrize("text", ["1 hr", "soon", "-3 s", "10 minutes 5 s"])
def test_what_is_no_duration_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(ValidationError, match=f"`{text}` is not a duration. Write 90 s, 10 min"):
        TypeAdapter(Duration).validate_python(text)


@pytest.mark.parametrize("text", ["0.5 ms", "PT0.0001S", "PT1.0005S", "0:00:00.0001"])
def test_what_is_cut_to_milliseconds_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValidationError, match=f"`{text}` is not a whole number of milliseconds"):
        TypeAdapter(Duration).validate_python(text)
