"""What `hybrid run` shows of the generation that was run, next to one that serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestration.chain import BoundedStep, PlanStep
from orchestration.cli import console, main, terminal_tables
from orchestration.supervision import status as status_module
from orchestration.supervision.rules.verdict import Verdict
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import read_requested, request
from tests.command_line import invoke
from tests.orchestration.supervision.live_case import LiveCase


def status(generation: str, **more: Any) -> Status:
    source = SourceStatus(source="live", state="running")
    given = {"planned": True, "healthy": True, "sources": [source], **more}
    return Status(pipeline="p", generation=generation, serving="g1", **given)


def shown(found: Status) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(terminal_tables.outcome(found))
    return capture.get()


def test_a_serving_generation_that_is_dead_is_one_line() -> None:
    trace = "\n".join(f"at frame {n}" for n in range(150))
    dead = Verdict(health="dead", reason=trace)
    served = status("g1", healthy=False, own_healthy=False, live=dead)
    text = shown(status("g2", healthy=False, served_by=served))
    assert "generation g1, which is serving, is dead: see `hybrid status P`" in text
    assert "frame" not in text
    assert "g1, which is serving" not in shown(status("g2", served_by=status("g1")))


@pytest.mark.parametrize(("own_healthy", "exit_status"), [(True, 0), (False, 1)])
def test_a_run_succeeds_by_its_own_generation_though_the_serving_one_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_healthy: bool, exit_status: int
) -> None:
    loaded = LiveCase(tmp_path).loaded
    dead = Verdict(health="dead", reason="its process was killed")
    served = status("g1", healthy=False, own_healthy=False, live=dead)
    found = status("g2", healthy=False, own_healthy=own_healthy, served_by=served)
    monkeypatch.setattr(main, "load", lambda _: loaded)
    monkeypatch.setattr(console, "run", lambda _, **__: None)
    monkeypatch.setattr(status_module, "status", lambda _: found)
    result = invoke(["run", "p.yaml"])
    assert result.exit_code == exit_status
    assert "generation g1, which is serving, is dead" in " ".join(result.stdout.split())


def test_what_a_step_notes_is_shown_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded, step = LiveCase(tmp_path).loaded, PlanStep()
    with console.progress(loaded) as observer:
        observer.started(step)
        # Brackets are no markup: a closing tag that was never opened would be an error.
        observer.noted(step, "[/in] of [main]")
    assert "[/in] of [main]" in capsys.readouterr().err


def test_a_log_has_a_line_for_each_quarter_of_a_source_while_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case, history = LiveCase(tmp_path), BoundedStep("history")
    said = {"launch_id": "a", "pid": 1, "host": "h", "source": "history", "phase": "bounded"}
    with console.progress(case.loaded) as observer:
        observer.started(history)
        for done in (0, 100, 240, 252, 260, 800):
            beat = {**said, "state": "running", "at_ms": 0, "rows_done": done, "rows_total": 1000}
            observer.beat(history, Heartbeat.model_validate(beat))
            # At once: whoever follows the log sees it.
            assert capsys.readouterr().err == {
                0: "history: begins\n",
                252: "history: 25%, 252 of 1,000 rows\n",
                800: "history: 80%, 800 of 1,000 rows\n",
            }.get(done, "")


def test_an_interrupt_says_what_became_of_the_run_and_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "run_chain", interrupt)
    path = LiveCase(tmp_path).path
    answer = invoke(["run", str(path)])
    assert answer.exit_code == 130
    assert f"run {path}` goes on from there" in answer.stderr


@pytest.mark.parametrize("was_requested", [False, True])
def test_an_interrupt_cancels_what_the_command_itself_has_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_requested: bool
) -> None:
    case = LiveCase(tmp_path)
    source = case.loaded.pipeline.sources[-1].name

    def switch_and_interrupt(_: object) -> None:
        request(case.generation, source, is_requested=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "run_chain", switch_and_interrupt)
    request(case.generation, source, is_requested=was_requested)
    assert invoke(["run", str(case.path)]).exit_code == 130
    found = read_requested(case.generation)
    assert found is not None
    assert found.is_requested == was_requested
    if not was_requested:
        assert "the command that started it was interrupted" in invoke(
            ["status", str(case.path)]
        ).stdout.replace("\n", " ")
