"""Times that people write: with a zone, or refused by what they wrote."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from sources.common.fields import Instant, parse_instant
from sources.errors import InputError


@pytest.mark.parametrize(
    "text", ["2024-01-31", "2024-01-31T00:00:00Z", "2024-01-31T02:00:00+02:00"]
)
def test_a_time_with_a_zone_or_a_date_is_an_instant(text: str) -> None:
    assert parse_instant(text) == datetime(2024, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["20240131", "2024", "1706659200", "-1", "1.5"])
def test_a_number_is_no_time_however_it_is_written(text: str) -> None:
    with pytest.raises(InputError, match=f"`{text}` is not a time"):
        parse_instant(text)
    for value in (text, float(text), int(float(text))):
        with pytest.raises(ValidationError, match="is a number, not a time"):
            TypeAdapter(Instant).validate_python(value)
