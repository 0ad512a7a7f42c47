"""What the provider makes of the answers of the real command line; without Airflow."""

from __future__ import annotations

import json
from pathlib import Path

from hybrid_airflow.command import Answer, arguments, find_problem, is_off

from orchestration.supervision.rules.verdict import Health, Verdict
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from sources.errors import StateError, UnavailableError
from tests.command_line import invoke


def answer(*arguments: str) -> Answer:
    result = invoke([*arguments, "--json"])
    return Answer(result.exit_code, result.stdout)


def document(health: Health, *, healthy: bool, served_by: Status | None = None) -> Status:
    return Status(
        pipeline="orders",
        generation="g1",
        serving="g1",
        served_by=served_by,
        planned=True,
        healthy=healthy,
        sources=[SourceStatus(source="live", state="dead")],
        live=Verdict(health=health, reason="Its process is gone."),
    )


def test_a_refused_command_says_what_is_wrong_and_is_not_worth_a_retry(tmp_path: Path) -> None:
    failure = answer("step", str(tmp_path / "none.yaml"), "plan").failure
    assert failure is not None
    assert "none.yaml" in failure.text
    assert not failure.transient


def test_an_error_that_waiting_mends_is_worth_a_retry() -> None:
    for error, transient in (
        (UnavailableError("No answer.", "Wait."), True),
        (StateError("No.", "Undo it."), False),
    ):
        printed = json.dumps({"ok": False, **error.report().model_dump()})
        assert Answer(2, printed).failure == (str(error), transient)


def test_a_command_that_was_killed_is_worth_a_retry() -> None:
    failure = Answer(-9, "").failure
    assert failure is not None
    assert "-9" in failure.text
    assert failure.transient


def test_a_step_that_succeeded_is_no_failure() -> None:
    assert Answer(0, json.dumps({"ok": True, "step": "plan"})).failure is None


def test_a_pipeline_that_is_not_healthy_is_described_with_the_reason() -> None:
    dead = document("dead", healthy=False)
    problem = find_problem(dead.model_dump(mode="json"))
    assert problem is not None
    for part in ("orders", "`live` is dead", "The live run is dead. Its process is gone."):
        assert part in problem
    # A candidate may be well while the generation that serves is not.
    candidate = document("healthy", healthy=False, served_by=dead)
    assert find_problem(candidate.model_dump(mode="json")) == problem
    assert find_problem(document("healthy", healthy=True).model_dump(mode="json")) is None


def test_a_run_that_people_stopped_or_paused_is_off() -> None:
    found = {
        health: is_off(document(health, healthy=True).model_dump(mode="json"))
        for health in ("stopped", "paused", "healthy", "late")
    }
    assert found == {"stopped": True, "paused": True, "healthy": False, "late": False}


def test_the_command_may_be_a_whole_command_line() -> None:
    line = arguments("ssh etl 'hybrid'", "status", "a b.yaml")
    assert line == ["ssh", "etl", "hybrid", "status", "a b.yaml", "--json"]
