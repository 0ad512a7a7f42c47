"""Retention of a table in the form that Delta's Rust library reads."""

from __future__ import annotations

import pytest

from hybrid_extensions.generations.files.retention import RETENTION, in_plain_form


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("interval 2 weeks", None),
        ("INTERVAL 1 day 12 hours", "interval 129600 seconds"),
        ("interval some days", None),
        (None, None),
    ],
)
def test_a_retention_of_several_parts_is_told_in_seconds(
    given: str | None, plain: str | None
) -> None:
    properties = {"delta.appendOnly": "true"} | ({} if given is None else {RETENTION: given})
    expected = None if plain is None else {**properties, RETENTION: plain}
    assert in_plain_form(properties) == expected
