"""Whether a generation's stream may be promoted: healthy, or stopped with little to read."""

from __future__ import annotations

import pytest

from hybrid_extensions.generations.switch.readiness import is_ready
from orchestration.supervision.rules.verdict import Health, Verdict
from sources.config.supervision import Supervision
from tests.orchestration.supervision.test_health import beat

EXPECTED = Supervision.model_validate({"caught_up_within": "10 s"})


@pytest.mark.parametrize(
    ("health", "lag", "rate", "is_right"),
    [
        ("healthy", None, None, True),
        ("stopped", 0, None, True),
        ("stopped", 1000, 100.0, True),
        ("stopped", 1001, 100.0, False),
        ("stopped", 1, None, False),
        # The broker does not answer.
        ("stopped", None, 100.0, False),
        ("paused", 0, 100.0, False),
        ("dead", 0, 100.0, False),
        ("catching-up", 10, 100.0, False),
    ],
)
def test_a_generation_may_be_promoted_if_its_run_keeps_readers_up_to_date(
    health: Health, lag: int | None, rate: float | None, is_right: bool
) -> None:
    numbers: dict[str, int | float] = {} if lag is None else {"lag": lag}
    verdict = Verdict(health=health, reason="", numbers=numbers)
    assert is_ready(verdict, beat(rows_per_s=rate), EXPECTED) is is_right
    assert not is_ready(None, None, EXPECTED)


@pytest.mark.parametrize(("waiting", "is_right"), [(0, True), (1, False)])
def test_splits_that_wait_in_a_folder_are_not_measured_by_a_rate_in_rows(
    waiting: int, is_right: bool
) -> None:
    verdict = Verdict(health="stopped", reason="", numbers={"lag": waiting})
    seen = beat(rows_per_s=1_000_000.0, splits_done=7, splits_total=7 + waiting)
    assert is_ready(verdict, seen, EXPECTED) is is_right
