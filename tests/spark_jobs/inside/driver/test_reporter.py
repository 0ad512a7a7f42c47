"""Heartbeats of a driver during a step that reports nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sources.errors import UnavailableError
from sources.planning.context import PipelineContext
from sources.state.generation import Generation
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.orchestration.supervision.live_case import LiveCase
from tests.services.processes import wait_for


def test_a_store_that_is_away_for_a_while_does_not_end_the_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    reporter = Reporter(PipelineContext(case.loaded, case.generation), "inbox", "a", None)
    reporter.every_s = 0.01
    first = read_heartbeat(case.generation, "inbox")
    assert first is not None
    write, refused = Generation.replace, 0

    def away(self: Generation, name: str, document: Any) -> Any:
        nonlocal refused
        if refused < 3:
            refused += 1
            raise UnavailableError("The store does not answer.", "Wait.")
        return write(self, name, document)

    monkeypatch.setattr(Generation, "replace", away)

    def has_beaten() -> bool:
        found = read_heartbeat(case.generation, "inbox")
        return found is not None and found.at_ms > first.at_ms

    with reporter.at_work():
        wait_for(has_beaten, "a heartbeat after the store is back", 30)
    assert refused == 3
