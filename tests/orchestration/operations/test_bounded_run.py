"""Runs of bounded sources: what becomes of one that people stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestration.operations import bounded_run, stopping
from sources.common.times import now_ms
from sources.errors import RunError
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.launch.driver_error import DriverError
from spark_jobs.launch.launch_record import LAUNCH, Launch
from tests.orchestration.supervision.live_case import LiveCase


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_history_that_people_stop_is_not_launched_again_and_one_that_was_killed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    loaded = case.loaded
    with case.alive():
        # Of a launch before this one.
        monkeypatch.setattr(run_control, "stop", lambda _, source: source == "history")
        stopping.stop(loaded, "Eve")

    def run_to_end(*_: Any) -> None:
        launch = Launch(
            launch_id="a", source="history", log="run/history.log", group=None, at_ms=now_ms() + 1
        )
        case.generation.replace(LAUNCH, launch)
        if is_stopped:
            monkeypatch.setattr(stopping, "is_held", lambda _: True)
            monkeypatch.setattr("sources.state.action_log.now_ms", lambda: now_ms() + 2)
            assert stopping.stop(loaded, "Ada") == ["history"]
        raise DriverError("history", "with status 3", None, "The last lines:")

    monkeypatch.setattr(run_control, "run_to_end", run_to_end)
    context = PipelineContext.require(loaded)
    with pytest.raises(RunError) as raised:
        bounded_run.run_bounded(context, loaded.pipeline.sources[0])
    assert raised.value.transient is not is_stopped, "a transient error makes Dagster try it again"
    text = "The run of `history` was stopped by Ada before all of its plan was read."
    assert (raised.value.message == text) is is_stopped
