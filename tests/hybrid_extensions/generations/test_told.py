"""A promotion tells what it does, who is at it, and where it stands if it is interrupted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterExecutionInterruptedError

from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import promotion, surplus
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.lock import SwitchHolder, hold_switch_lock
from sources.errors import StateError
from sources.serving import Serving, Switch, pending_switch
from spark_jobs.launch import run_control
from tests.command_line import invoke
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, call, two
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import NEVER_ENDS

PROMOTED = [
    "checked: g2 can replace g1 and lacks none of its 1 file",
    "1 of 5: no run of g1 or g2 was active",
    "2 of 5: one commit to the table's log (version 2) lists 1 file of g2; readers see g2",
    "3 of 5: g2 is recorded as serving",
    "4 of 5: kept for a rollback: g1 (version 1)",
    "5 of 5: g2 has no live run to start",
]


def test_each_step_is_told_in_order_with_its_figures(tmp_path: Path) -> None:
    case, said = two(tmp_path), list[str]()
    promotion.promote(case.loaded, say=said.append)
    assert said == PROMOTED


def test_runs_that_are_stopped_are_told_by_their_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, said = two(tmp_path), list[str]()
    monkeypatch.setattr(run_control, "stop", lambda generation, _: generation.name == "g1")
    promotion.promote(case.loaded, say=said.append)
    assert said[1] == "1 of 5: the run of g1 is stopped"


def test_a_rollback_that_keeps_nothing_tells_what_it_removes(tmp_path: Path) -> None:
    case, said = two(tmp_path, generations={"keep": 0}), list[str]()
    promotion.promote(case.loaded, say=said.append)
    assert said[-3] == "3 of 5: g2 is recorded as serving", "nothing is said to be kept"
    assert said[-2] == (
        "4 of 5: removed, as no rollback needs them: generations: g1; 0 files; kept for a "
        "rollback: none"
    )


def test_the_command_line_shows_the_steps_next_to_its_answer(tmp_path: Path) -> None:
    case = two(tmp_path)
    done = invoke(["generation", "promote", str(case.folder / "events.yaml")])
    assert done.stderr.splitlines() == PROMOTED
    assert "Readers see generation g2" in done.stdout


def test_an_abort_tells_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, said = two(tmp_path), list[str]()
    interrupted(case, monkeypatch, TakeOver, "commit", KeyboardInterrupt)
    promotion.abort(case.loaded, say=said.append)
    assert said == [
        "1 of 3: nothing of g2 is in the target; what was requested applies again",
        "2 of 3: the promotion of g2 is given up; g1 serves as before",
        "3 of 3: no live run was requested",
    ]


def test_two_at_once_are_refused_with_who_does_what_since_when_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, refused = two(tmp_path), list[StateError]()
    commit = TakeOver.commit

    def meanwhile(self: TakeOver, *arguments: Any) -> None:
        with pytest.raises(StateError) as caught:
            promotion.promote(case.loaded, by="Bob")
        refused.append(caught.value)
        commit(self, *arguments)

    monkeypatch.setattr(TakeOver, "commit", meanwhile)
    promotion.promote(case.loaded, by="Ada")
    [error] = refused
    assert f"It is process {os.getpid()} on {socket.gethostname()}, since " in error.message
    step = "step 2 of 5: listing the files of g2 in the table's log, in one commit."
    assert error.message.endswith(f": promotion of g2, requested by Ada, {step}")
    assert f"`kill {os.getpid()}` on {socket.gethostname()}" in error.hint
    assert "`hybrid generation finish P`" in error.hint
    assert error.transient
    assert case.seen() == NEW
    # Nobody is named who is at it no more.
    assert case.loaded.state.read(SwitchHolder.NAME, SwitchHolder) is None


def test_a_discard_is_named_as_what_it_is(tmp_path: Path) -> None:
    case = two(tmp_path)
    with (
        hold_switch_lock(case.loaded, "discard of the newest generation"),
        pytest.raises(StateError, match="discard of the newest generation"),
    ):
        promotion.promote(case.loaded)


def test_a_document_about_the_holder_that_can_not_be_written_stops_no_promotion(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    # In its place is something that can't be replaced by a file.
    case.loaded.state.path(SwitchHolder.NAME).mkdir()
    promotion.promote(case.loaded)
    assert case.seen() == NEW


def interrupted(
    case: GenerationCase,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    error: type[BaseException],
) -> str:
    """Interrupt a promotion before a step; return what was told last."""
    said: list[str] = []

    def stopped(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, name, stopped)
        with pytest.raises(error):
            promotion.promote(case.loaded, say=said.append)
    return said[-1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, DagsterExecutionInterruptedError])
def test_before_the_commit_an_interrupt_tells_that_nothing_has_changed_and_both_ways_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    case = two(tmp_path)
    told = interrupted(case, monkeypatch, switch_steps, "check", error)
    assert told == (
        "Interrupted before the first step: nothing has changed, and readers see g1. Try again."
    )
    told = interrupted(case, monkeypatch, TakeOver, "commit", error)
    assert told.startswith("Interrupted before the commit: nothing has changed, and readers see g1")
    assert "`hybrid generation finish P` goes on with the promotion of g2" in told
    assert "`hybrid generation abort P` gives it up" in told
    assert case.seen() == OLD
    assert call(case, "abort")["aborted"] == "g2"


@pytest.mark.parametrize("error", [KeyboardInterrupt, DagsterExecutionInterruptedError])
def test_after_the_commit_an_interrupt_tells_that_it_is_done_and_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    case = two(tmp_path)
    told = interrupted(case, monkeypatch, switch_steps, "record", error)
    assert told.startswith("Interrupted after the commit: the promotion is done, readers see g2.")
    assert "`hybrid generation finish P` completes them, or the supervision does" in told
    assert case.seen() == NEW
    said: list[str] = []
    promotion.finish(case.loaded, say=said.append)
    assert said[1] == "2 of 5: the commit (version 2) was made before; readers see g2"


def test_after_its_last_step_an_interrupt_does_not_send_people_to_a_command_that_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    told = interrupted(case, monkeypatch, surplus, "clean", KeyboardInterrupt)
    assert told.startswith("Interrupted after the last step of the change: readers see g2.")
    assert "generation finish" not in told
    assert pending_switch(case.loaded) is None


def test_an_error_is_no_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = interrupted(two(tmp_path), monkeypatch, switch_steps, "record", OSError)
    assert told == PROMOTED[2]


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_command_with_where_it_stands(tmp_path: Path, signal: str) -> None:
    case = two(tmp_path)
    code = (
        "import os, signal, sys\n"
        "from orchestration.cli.main import app\n"
        "from hybrid_extensions.generations.switch import steps as switch_steps\n"
        "def record(*_):\n"
        f"    os.kill(os.getpid(), signal.{signal})\n"
        f"    {NEVER_ENDS}\n"
        "switch_steps.record = record\n"
        f"app(['generation', 'promote', {str(case.folder / 'events.yaml')!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 130, done.stderr
    assert "Interrupted after the commit: the promotion is done" in done.stderr.splitlines()[-1]
    assert case.loaded.state.read(Switch.NAME, Switch) is not None
    assert call(case, "finish")["serving"] == "g2"


def test_a_rerun_that_promotes_nothing_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GenerationCase(tmp_path)
    monkeypatch.setattr(lifecycle, "rerun", lambda *_, **__: Serving(generation="g1"))
    said = invoke(["rerun", str(case.loaded.path), "--no-promote"]).stdout
    assert f"hybrid generation promote {case.loaded.path}` lets readers see it" in said
    assert "promote" not in invoke(["rerun", str(case.loaded.path)]).stdout
