"""The one runner over a chain's steps: their order, what an observer sees, where it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestration import chain as steps
from orchestration.chain import (
    BoundedStep,
    ChainRun,
    HandoverStep,
    LiveStep,
    Observer,
    Outcome,
    Step,
    run_chain,
    run_step,
)
from sources.errors import HybridError, InputError, SeamError
from tests.minimal import minimal_pipeline
from tests.orchestration.generations.generation_case import GenerationCase


class Seen(Observer):
    def __init__(self) -> None:
        self.events: list[str] = []

    def started(self, step: Step[Any]) -> None:
        self.events.append(f"{step.name} started")

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        self.events.append(f"{step.name}: {outcome.text}")


class Fixed(Step[None]):
    def __init__(self, name: str, refusal: SeamError | None = None) -> None:
        self.name = name
        self.refusal = refusal

    def _run(self, run: ChainRun) -> Outcome[None]:
        return Outcome(None, {}, "done", self.refusal)


def chain_of(monkeypatch: pytest.MonkeyPatch, *made: Step[Any]) -> None:
    monkeypatch.setattr(steps, "steps_of", lambda _: list(made))


def test_steps_run_in_order_and_the_observer_sees_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_of(monkeypatch, Fixed("a"), Fixed("b"))
    seen = Seen()
    run_chain(ChainRun(GenerationCase(tmp_path).loaded, seen))
    assert seen.events == ["a started", "a: done", "b started", "b: done"]


def test_a_step_whose_outcome_is_refused_is_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = SeamError("The check fails.", "Nothing was started.")
    chain_of(monkeypatch, Fixed("a", refusal), Fixed("b"))
    run, seen = GenerationCase(tmp_path).loaded, Seen()
    for go in (lambda: run_chain(ChainRun(run, seen)), lambda: run_step(ChainRun(run, seen), "a")):
        with pytest.raises(SeamError, match="Nothing was started"):
            go()
    assert seen.events == ["a started", "a: done"] * 2


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (steps.PlanStep(), "The table was not changed."),
        (HandoverStep("live"), "The table was not changed."),
        (BoundedStep("history"), "What is committed stays in the table, and is not read again."),
        (LiveStep("live"), "What is committed stays in the table, and is not read again."),
    ],
    ids=lambda each: each.name if isinstance(each, Step) else "",
)
def test_a_step_that_fails_tells_what_became_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step[Any], told: str
) -> None:
    def fail(self: Step[Any], run: ChainRun) -> Outcome[Any]:
        raise InputError("It is wrong.", "Mend it.")

    monkeypatch.setattr(type(step), "_run", fail)
    chain_of(monkeypatch, step)
    with pytest.raises(InputError) as caught:
        run_chain(ChainRun(GenerationCase(tmp_path).loaded))
    assert str(caught.value) == f"It is wrong. {told} Mend it."


def test_a_chain_that_computes_for_another_table_tells_what_became_of_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_of(monkeypatch, BoundedStep("history"), Fixed("b", SeamError("It has a gap.", "Wait.")))
    loaded = GenerationCase(tmp_path).loaded
    run = ChainRun(loaded, leaves="The table was not changed.")
    # Nothing was planned, so the first one fails; the outcome of the second one is refused.
    for name in ("history", "b"):
        with pytest.raises(HybridError) as caught:
            run_step(run, name)
        assert caught.value.effect == "The table was not changed."


def test_a_refused_outcome_tells_what_became_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_of(monkeypatch, Fixed("a", SeamError("The check fails.", "Mend it.")))
    with pytest.raises(SeamError, match=r"^The check fails\. The table was not changed\. Mend it"):
        run_chain(ChainRun(GenerationCase(tmp_path).loaded))


def test_a_step_that_is_not_there_is_refused_with_the_names_of_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_of(monkeypatch, Fixed("plan"), HandoverStep("live"))
    with pytest.raises(InputError, match="one of its steps: plan, live_handover"):
        run_step(ChainRun(GenerationCase(tmp_path).loaded), "live_handoff")


def test_histories_of_several_inputs_come_first_and_one_live_run_follows_all_topics(
    tmp_path: Path,
) -> None:
    inputs = {
        name: {
            "sources": [
                {"name": f"old_{name}", "type": "files", "format": "avro", "path": f"{name}/*"},
                {"name": f"new_{name}", "type": "kafka", "topic": name},
            ]
        }
        for name in ("orders", "payments")
    }
    loaded = minimal_pipeline(tmp_path, inputs=inputs)
    assert [step.name for step in steps.steps_of(loaded)] == [
        "plan",
        "old_payments",
        "new_orders_handover",
        "new_payments_handover",
        "new_payments",
    ]
