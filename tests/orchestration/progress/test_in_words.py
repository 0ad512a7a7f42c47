"""Why a source is complete only until before its highest event time is told with the time."""

from __future__ import annotations

import pytest

from orchestration.progress.in_words import action_in_words, complete_through
from sources.common.positions import EndPosition
from sources.state.action_log import LoggedAction

_HOUR_MS = 3_600_000
_END_MS = 30 * 24 * _HOUR_MS


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("new generation", "new generation g2"),
        ("promotion", "promotion of g2"),
        ("rollback", "rollback to g2"),
    ],
)
def test_an_action_is_a_phrase_with_its_generation(action: str, text: str) -> None:
    logged = LoggedAction(
        number=1, action=action, by="", at_ms=0, generation="g2", before={}, outcome="done"
    )
    assert action_in_words(logged) == text


@pytest.mark.parametrize(
    ("earlier_ms", "text"),
    [
        (0, "31 Jan 1970 00:00:00 UTC"),
        (
            24 * _HOUR_MS,
            "30 Jan 1970 00:00:00 UTC, 1 d before its end: rows of then may still come",
        ),
        (-_HOUR_MS, "31 Jan 1970 01:00:00 UTC"),
    ],
    ids=["no lateness", "a day", "declared after the end"],
)
def test_until_when_a_source_is_complete_and_why(earlier_ms: int, text: str) -> None:
    end = EndPosition(
        source="history",
        event_time_ms=_END_MS,
        complete_through_ms=_END_MS - earlier_ms,
        event_times="exact",
        splits=1,
        rows=1,
    )
    assert complete_through(end) == text
