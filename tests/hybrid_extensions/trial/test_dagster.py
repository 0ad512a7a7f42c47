"""The action TRY of the control job: what its form has to have."""

from __future__ import annotations

from pathlib import Path

from tests.orchestration.supervision.live_case import LiveCase
from tests.orchestration.supervision.test_controls import cause, run


def test_a_try_without_keys_or_with_others_than_a_share_is_refused(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    assert "TRY needs `keys`" in cause(run(case, "try"))
    assert "`some` is not a percentage" in cause(run(case, "try", keys="some"))
