"""Operations on a chain: what becomes of a request for the live run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestration.operations import live_run, stopping
from sources.errors import RunError
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.run_state.requested_state import read_requested, request
from tests.orchestration.supervision.live_case import LiveCase


@pytest.mark.parametrize("error", [KeyboardInterrupt, RunError])
@pytest.mark.parametrize("before", [None, False, True])
def test_an_interrupted_start_leaves_the_request_as_it_was_and_a_failed_one_stays_requested(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: bool | None,
    error: type[BaseException],
) -> None:
    def end(*_: Any) -> None:
        raise error("It ended.", "Try again.")

    case = LiveCase(tmp_path)
    source = case.loaded.pipeline.sources[-1]
    if before is not None:
        request(case.generation, source.name, is_requested=before)
    monkeypatch.setattr(live_run, "require_ready_to_stream", lambda *_: None)
    monkeypatch.setattr(run_control, "start_detached", end)
    with pytest.raises(error):
        live_run.go_live(PipelineContext(case.loaded, case.generation), source)
    found = read_requested(case.generation)
    assert found is not None
    assert found.is_requested == (bool(before) or error is RunError)


def test_a_driver_that_switches_to_the_live_run_while_it_is_stopped_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    live = case.loaded.pipeline.sources[-1].name

    def switch(_: object, source: str) -> bool:
        if source == "history":
            request(case.generation, live, is_requested=True)
        return source == "history"

    monkeypatch.setattr(run_control, "stop", switch)
    with case.alive():
        assert stopping.stop(case.loaded, "Ada") == ["history"]
    found = read_requested(case.generation)
    assert found is not None
    assert (found.is_requested, found.by) == (False, "Ada")
