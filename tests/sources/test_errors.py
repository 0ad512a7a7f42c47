"""Texts of errors: what is wrong, then what to do."""

from __future__ import annotations

import pytest

from sources.errors import InputError


@pytest.mark.parametrize(
    ("message", "hint", "text"),
    [
        ("It is wrong.", "Mend it.", "It is wrong. Mend it."),
        ("No such file: /data/a.json", "Mend it.", "No such file: /data/a.json. Mend it."),
        ("They differ:\n    a | b", "Mend it.", "They differ:\n    a | b\nMend it."),
        ("No such file: /data/a.json", "", "No such file: /data/a.json"),
    ],
)
def test_the_message_ends_before_the_way_out_begins(message: str, hint: str, text: str) -> None:
    error = InputError(message, hint)
    assert str(error) == str(error.report()) == text
