"""Who did what to a pipeline: each command leaves its action, and `hybrid history` shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestration.launch_checks import require_ready
from orchestration.progress.in_words import action_in_words
from orchestration.supervision import controls
from orchestration.supervision.card import card
from orchestration.supervision.status import status, status_of
from sources.errors import StateError
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.state.action_log import LoggedAction, read_actions
from spark_jobs.run_state.driver_lock import take_launch_lock
from tests.command_line import invoke
from tests.orchestration.supervision.live_case import LiveCase


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    return LiveCase(tmp_path)


def history(case: LiveCase) -> list[LoggedAction]:
    return read_actions(case.loaded.state)


def call(case: LiveCase, *words: str) -> dict[str, Any]:
    result = invoke([words[0], str(case.path), *words[1:], "--json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_commands_leave_who_did_what_with_before_and_after(case: LiveCase) -> None:
    case.ask_for_it()
    call(case, "pause", "--by", "ada", "--why", "new disk")
    call(case, "rate", "inbox", "--files", "5", "--by", "bob")
    call(case, "rate", "inbox", "--by", "bob")
    call(case, "stop", "--by", "eve")
    assert [action_in_words(each) for each in history(case)] == [
        "pause of g1 by ada (live run: live → paused; why: new disk)",
        "rate of g1 by bob (rate of inbox: no limit → 5 files per second)",
        "rate of g1 by bob (rate of inbox: 5 files per second → no limit)",
        "stop of g1 by eve (live run: paused → stopped; ended runs: none)",
    ]
    shown = call(case, "history", "--last", "2")["actions"]
    assert [(each["number"], each["by"], each["outcome"]) for each in shown] == [
        (3, "bob", "done"),
        (4, "eve", "done"),
    ]
    text = invoke(["history", str(case.path)], env={"COLUMNS": "200"}).output
    assert "live run: paused → stopped" in text


def test_what_changes_nothing_or_is_refused_is_not_recorded(case: LiveCase) -> None:
    with pytest.raises(StateError, match="was never started"):
        controls.pause(case.loaded, by="ada")
    call(case, "stop", "--by", "ada")
    assert history(case) == []
    case.ask_for_it()
    call(case, "pause", "--by", "ada")
    call(case, "pause", "--by", "bob")
    assert [each.by for each in history(case)] == ["ada"]
    answer = invoke(["history", str(case.path), "--last", "0"])
    assert answer.exit_code == 2


def test_a_changed_declaration_is_recorded_when_a_run_first_goes_by_it(case: LiveCase) -> None:
    keep_definition(case.loaded, case.generation)
    keep_definition(case.loaded, case.generation)
    assert history(case) == []
    text = case.path.read_text()
    case.path.write_text(text.replace("stuck_after: 1 min", "stuck_after: 2 min"))
    keep_definition(case.loaded, case.generation)
    [found] = history(case)
    assert action_in_words(found) == (
        "change of declaration of g1 (supervision.stuck_after: 1 min → 2 min)"
    )


def test_the_definition_stays_kept_by_which_a_run_was_launched(case: LiveCase) -> None:
    case.plan_history()
    context = PipelineContext.require(case.loaded)
    inbox = case.loaded.pipeline.sources[-1]
    case.ask_for_it()
    require_ready(context, inbox)
    case.launch("one")
    lock = take_launch_lock(case.generation, "one")
    assert lock is not None
    with case.alive():
        require_ready(context, inbox)
        (case.path.parent / "transforms.py").write_text(
            "# edited, and nothing else of it is left\n"
        )
        require_ready(context, inbox)
        assert status_of(case.loaded).changed_since_launch is not None
        assert history(case) == []
        told = " ".join(invoke(["status", str(case.path)]).output.split())
        assert "Warning: `transforms.py` has changed since the run was launched" in told
    lock.release()
    require_ready(context, inbox)
    assert status_of(case.loaded).changed_since_launch is None
    [found] = history(case)
    assert "change of declaration of g1 (transforms.py: " in action_in_words(found)


def test_the_card_tells_the_last_action(case: LiveCase) -> None:
    case.ask_for_it()
    call(case, "pause", "--by", "ada")
    shown = card(case.loaded, status(case.loaded), None).markdown
    assert "UTC: pause of g1 by ada (live run: live → paused)" in shown
