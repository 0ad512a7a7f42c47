"""Operations on a chain: what becomes of a request for the live run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestration.operations import live_run, stopping
from sources.errors import RunError
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.state.action_log import read_actions
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
    monkeypatch.setattr(live_run, "require_ready_to_stream", lambda *_: lambda: None)
    monkeypatch.setattr(run_control, "start_detached", end)
    with pytest.raises(error):
        live_run.go_live(PipelineContext(case.loaded, case.generation), source)
    found = read_requested(case.generation)
    assert found is not None
    assert found.is_requested == (bool(before) or error is RunError)


@pytest.mark.parametrize("transient", [False, True])
def test_a_definition_by_which_the_run_is_refused_does_not_replace_the_one_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, transient: bool
) -> None:
    case = LiveCase(tmp_path)
    context, source = (
        PipelineContext(case.loaded, case.generation),
        case.loaded.pipeline.sources[-1],
    )
    keep_definition(context.loaded, case.generation)
    module = tmp_path / "transforms.py"
    before = module.read_bytes()
    module.write_bytes(before + b"more = 1")

    def end(*_: Any) -> None:
        assert case.generation.read_bytes("definition/transforms.py") == module.read_bytes()
        raise RunError("It ended.", "Try again.", transient=transient)

    def ready(*_: Any) -> Callable[[], None]:
        return keep_definition(context.loaded, case.generation)

    monkeypatch.setattr(live_run, "require_ready_to_stream", ready)
    monkeypatch.setattr(run_control, "start_detached", end)
    with pytest.raises(RunError):
        live_run.go_live(context, source)
    # After a kill nobody knows whether it has run.
    kept = module.read_bytes() if transient else before
    assert case.generation.read_bytes("definition/transforms.py") == kept
    changed = [each for each in read_actions(context.loaded.state) if "declaration" in each.action]
    assert len(changed) == (1 if transient else 2)


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
