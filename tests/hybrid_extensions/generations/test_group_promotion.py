"""Candidates of several pipelines are promoted together: readers get all of them, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import group_steps, promotion, surplus
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_members import Group
from hybrid_extensions.generations.switch.group_switch import promote_group
from sources.errors import StateError
from sources.serving import Switch, pending_switch, read_serving
from sources.state.action_log import read_actions
from sources.storage.folder import Folder
from spark_jobs.run_state.table_locks import take_switch_lock
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, call, two
from tests.orchestration.generations.generation_case import GenerationCase

# Each step of a group of two, and how often it is called.
STEPS: list[tuple[Any, str]] = [
    (group_steps, "begin_action"),
    (Folder, "put_if_absent"),
    (Folder, "replace_known"),
    (switch_steps, "end_runs"),
    (switch_steps, "prepare"),
    (TakeOver, "_bring"),
    (TakeOver, "commit"),
    (switch_steps, "record"),
    (switch_steps, "write_serving"),
    (surplus, "clean"),
    (Folder, "delete"),
]
BROKEN = [
    (first, (where, name, nth, done))
    for first in (0, 1)
    for where, name in STEPS
    for nth in range(1, 5)
    for done in (0, 1)
]


def pair(folder: Path) -> tuple[GenerationCase, GenerationCase]:
    """Two pipelines, each with a generation that serves and a candidate."""
    for name in ("one", "other"):
        (folder / name).mkdir()
    return two(folder / "one"), two(folder / "other")


def group(cases: tuple[GenerationCase, ...]) -> list[str]:
    return [each.generation for each in promote_group([case.loaded for case in cases])]


def broken_off(
    cases: tuple[GenerationCase, ...],
    monkeypatch: pytest.MonkeyPatch,
    at: tuple[Any, str, int, int],
) -> bool:
    """Break the promotion off like a kill, before (0) or after (1) the nth call of a step."""
    where, name, nth, done = at
    step, calls = getattr(where, name), 0
    with monkeypatch.context() as patch:

        def crash(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls != nth:
                return step(*args, **options)
            if done:
                step(*args, **options)
            raise KeyboardInterrupt

        patch.setattr(where, name, crash)
        try:
            group(cases)
        except KeyboardInterrupt:
            return True
    return False


def seen(cases: tuple[GenerationCase, ...]) -> list[dict[int, int]]:
    return [case.seen() for case in cases]


def test_all_candidates_are_promoted_and_each_can_be_rolled_back(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    said: list[str] = []
    promote_group([case.loaded for case in cases], by="ada", say=said.append)
    assert seen(cases) == [NEW, NEW]
    assert said[0] == "checked: g2 of events, g2 of events can be promoted"
    for case in cases:
        assert (read_serving(case.loaded).generation, read_serving(case.loaded).by) == ("g2", "ada")
        actions = [(each.action, each.outcome) for each in read_actions(case.loaded.state)]
        assert actions[-1] == ("promotion", "done")
        assert call(case, "rollback")["serving"] == "g1"
    assert seen(cases) == [OLD, OLD]


@pytest.mark.parametrize(
    ("first", "at"),
    # Every ninth is another step, call and side of it.
    [pytest.param(*each, marks=[pytest.mark.slow] * (i % 9 > 0)) for i, each in enumerate(BROKEN)],
    ids=str,
)
def test_one_that_breaks_off_anywhere_ends_with_all_or_none_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, at: tuple[Any, str, int, int]
) -> None:
    cases = pair(tmp_path)
    if not broken_off(cases, monkeypatch, at):
        assert seen(cases) == [NEW, NEW]
        return
    # The supervision looks after each pipeline; one of them comes first.
    for case in (cases[first], cases[1 - first]):
        promotion.finish(case.loaded)
    found = seen(cases)
    assert found in ([OLD, OLD], [NEW, NEW])
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
    if found == [OLD, OLD]:
        # Nothing of it is left: the same can be done again.
        assert group(cases) == ["g2", "g2"]
        assert seen(cases) == [NEW, NEW]
    if cases[0].loaded.state.exists(Group.NAME):
        # Killed after the last switch: the next one of these pipelines removes the record.
        with pytest.raises(StateError, match="has no candidate"):
            group(cases)
    assert [case.loaded.state.exists(Group.NAME) for case in cases] == [False, False]


def test_what_refuses_one_of_them_refuses_all_and_changes_nothing(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    call(cases[1], "discard")
    with pytest.raises(StateError, match="has no candidate"):
        group(cases)
    assert seen(cases) == [OLD, OLD]
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
    lock = take_switch_lock(cases[1].loaded.state)
    assert lock is not None
    with pytest.raises(StateError) as caught:
        group(cases)
    lock.release()
    assert seen(cases) == [OLD, OLD]
    assert caught.value.hint


def test_an_error_before_it_has_begun_gives_all_of_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    ends = switch_steps.end_runs
    calls: list[str] = []

    def fails(*contexts: Any) -> list[str]:
        calls.append(contexts[0].generation.name)
        if len(calls) == 2:
            message = "A run can't be ended."
            raise StateError(message, "")
        return ends(*contexts)

    monkeypatch.setattr(switch_steps, "end_runs", fails)
    with pytest.raises(StateError, match="A run can't be ended"):
        group(cases)
    assert seen(cases) == [OLD, OLD]
    for case in cases:
        assert pending_switch(case.loaded) is None
        assert read_actions(case.loaded.state)[-1].outcome == "given up"
    monkeypatch.undo()
    assert group(cases) == ["g2", "g2"]


def test_it_can_be_aborted_until_the_first_table_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 1, 0))
    aborted = promotion.abort(cases[1].loaded)
    assert aborted is not None
    assert aborted.to == "g2"
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
    assert seen(cases) == [OLD, OLD]
    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 2, 0))
    assert seen(cases) == [NEW, OLD]
    with pytest.raises(StateError, match="can't be aborted: it is committed"):
        promotion.abort(cases[1].loaded)
    promotion.finish(cases[1].loaded)
    assert seen(cases) == [NEW, NEW]


def test_a_switch_of_a_group_that_is_gone_is_given_up(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    one = cases[0].loaded
    left = Switch(to="g2", past="g1", at_ms=1, is_rollback=False, group=str(one.path))
    cases[1].loaded.state.put_if_absent(Switch.NAME, left)
    promotion.finish(cases[1].loaded)
    assert pending_switch(cases[1].loaded) is None
    assert group(cases) == ["g2", "g2"]


def test_a_file_that_declares_another_pipeline_by_now_gives_up_no_half_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 2, 0))
    assert seen(cases) == [NEW, OLD]
    cases[0].write(name="renamed")
    for end in (promotion.finish, promotion.abort):
        with pytest.raises(StateError, match="By now it declares `renamed`"):
            end(cases[1].loaded)
    assert pending_switch(cases[1].loaded) is not None
    cases[0].write()
    promotion.finish(cases[1].loaded)
    assert seen(cases) == [NEW, NEW]


def test_the_command_promotes_several_pipelines(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    done = call(cases[0], "promote", str(cases[1].loaded.path))
    assert [each["serving"] for each in done["served"]] == ["g2", "g2"]
    assert seen(cases) == [NEW, NEW]
