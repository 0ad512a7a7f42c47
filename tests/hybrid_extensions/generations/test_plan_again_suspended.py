"""A process that replaces a plan and was suspended meanwhile removes nothing that others began."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.generations import discards
from orchestration.operations import chain_plan
from sources.errors import StateError
from sources.generations import begin
from sources.state.generation import CURRENT, CurrentGeneration
from sources.storage.folder import Folder
from spark_jobs.launch import unread_generations
from tests.hybrid_extensions.generations.test_suspended import before
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.generations.test_plan_again import (
    case,
    declare,
    files,
    read_something,
)

__all__ = ["case"]
MEANWHILE = "another one may have planned, run or discarded the generation meanwhile"


class Lease:
    """A launch lock that is a lease: whoever takes it next has it, whether or not it is held."""

    descriptors = ()

    def __init__(self, leases: list[Lease]) -> None:
        self._leases = leases
        leases.append(self)

    def is_held(self) -> bool:
        return self._leases[-1] is self

    def release(self) -> None:
        """It was taken over."""


@pytest.fixture
def outdated(case: GenerationCase, monkeypatch: pytest.MonkeyPatch) -> GenerationCase:
    """A plan of two files, where the declaration names a folder with one; locks are leases."""
    leases: list[Lease] = []
    monkeypatch.setattr(unread_generations, "take_launch_lock", lambda *_: Lease(leases))
    assert files(case) == 2
    declare(case, path="other/*.json")
    return case


def after_others(case: GenerationCase, where: Any, name: str, others: Callable[[], object]) -> None:
    """Plan again; at a call of a function others do something first, while this process sleeps."""
    with pytest.MonkeyPatch.context() as patch:
        before(patch, where, name, others)
        with pytest.raises(StateError, match=MEANWHILE) as refused:
            chain_plan.plan(case.loaded)
    assert refused.value.transient


def planned_and_read(case: GenerationCase) -> None:
    assert files(case) == 1
    read_something(case)


@pytest.mark.parametrize(
    ("where", "name"),
    [(unread_generations, "read_serving"), (unread_generations, "take_launch_lock")],
    ids=["before it removes", "before its lock"],
)
def test_what_others_have_planned_and_read_since_stays(
    outdated: GenerationCase, where: Any, name: str
) -> None:
    after_others(outdated, where, name, lambda: planned_and_read(outdated))
    generation = outdated.loaded.require_generation()
    assert generation.exists("checkpoint/offsets/0")
    assert generation.exists("plan.json")
    assert files(outdated) == 1


@pytest.mark.parametrize("deletions", [1, 3])
def test_it_stops_where_it_was_suspended_while_files_were_deleted_one_by_one(
    outdated: GenerationCase, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    # As a bucket does.
    monkeypatch.setattr(type(outdated.loaded.state.documents), "deletes_at_once", False)
    delete = Folder.delete
    deleted: list[str] = []

    def slow(folder: Folder, name: str) -> None:
        delete(folder, name)
        deleted.append(name)
        if len(deleted) == deletions:
            planned_and_read(outdated)

    monkeypatch.setattr(Folder, "delete", slow)
    with pytest.raises(StateError, match=MEANWHILE):
        chain_plan.plan(outdated.loaded)
    monkeypatch.setattr(Folder, "delete", delete)
    assert files(outdated) == 1
    assert outdated.loaded.require_generation().exists("checkpoint/offsets/0")


def test_something_that_was_read_before_its_lock_is_not_removed(outdated: GenerationCase) -> None:
    offsets = outdated.loaded.state.folder("g1/checkpoint/offsets")
    read = lambda: offsets.replace_bytes("0", b"v1\n{}\n-")  # noqa: E731
    after_others(outdated, unread_generations, "take_launch_lock", read)
    assert offsets.exists("0")
    assert outdated.loaded.state.exists(CURRENT)
    assert outdated.loaded.state.exists("g1/plan.json")


def test_no_generation_is_brought_back_after_another_one_was_begun(
    case: GenerationCase, tmp_path: Path
) -> None:
    case.run({1: 1})
    begin(case.loaded)
    assert files(case) == 2
    declare(case, path="other/*.json")
    # Once the candidate is dropped, and before it begins again.
    after_others(case, unread_generations, "make_generation", lambda: begin(case.loaded))
    current = case.loaded.state.read(CURRENT, CurrentGeneration)
    assert current == CurrentGeneration(generation="g3")
    # Nor is anything left of it.
    assert "g2" not in case.loaded.state.folders()
    assert discards.discard(case.loaded) == "g3"
