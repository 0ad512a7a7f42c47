"""A drain waits for what a captured database's log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.supervision import controls
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from tests.hybrid_extensions.cdc.test_connector_wait import CapturedLog, capture
from tests.orchestration.supervision.live_case import LiveCase
from tests.orchestration.supervision.test_controls import MINUTE, arrive, driver
from tests.orchestration.supervision.test_controls import case as case  # noqa: PLC0414 - a fixture


def test_what_a_connector_has_yet_to_write_is_drained_too(
    tmp_path: Path, case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WritesAtLast(CapturedLog):
        def unread(self) -> int:
            left = super().unread()
            if not left:
                arrive(tmp_path, "inbox/late.json")
            return left

    capture(WritesAtLast(58_000_000, 58_000_000, 0, confirmed_at=3), monkeypatch)
    case.ask_for_it()
    with driver(case):
        controls.drain(case.loaded, MINUTE)
    folder = GrowingFolder(PipelineContext(case.loaded, case.generation))
    assert (folder.splits, folder.undiscovered()) == (2, set())
