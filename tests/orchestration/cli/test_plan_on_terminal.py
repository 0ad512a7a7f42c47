"""What ``hybrid plan`` shows of a plan that was made a while ago."""

from __future__ import annotations

import pytest
from rich.console import Console

from orchestration.cli import terminal_tables
from orchestration.progress.expected_time import Estimate
from orchestration.progress.plan_preview import Preview
from tests.orchestration.progress.plan_case import plan, topic

_HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("hours", "said"),
    [(0, "in 1 d."), (6, "in 18 h."), (25, "at any moment: its retention ended 1 h ago.")],
)
def test_the_retention_that_is_left_is_that_of_now(
    monkeypatch: pytest.MonkeyPatch, hours: int, said: str
) -> None:
    made = plan(topic())
    monkeypatch.setattr(terminal_tables, "now_ms", lambda: made.created_ms + hours * _HOUR_MS)
    guess = Estimate(seconds=None, executor_hours=None, is_guess=False, basis="none")
    seen = Preview(
        summary="Reads.", files={}, estimate=guess, schemas={}, previous=None, changes=[]
    )
    console = Console(width=300)
    with console.capture() as capture:
        console.print(terminal_tables.plan(made, seen, "Run it."))
    (line,) = [each for each in capture.get().splitlines() if each.startswith("Retention")]
    assert line.strip().endswith(said), line
