"""Several pipelines are promoted or rolled back together: readers get all of them, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybrid_extensions.generations import discards
from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import group_steps, promotion, surplus
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_members import Group
from hybrid_extensions.generations.switch.group_switch import promote_group, roll_back_group
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError, StateError
from sources.serving import Switch, pending_switch, read_serving, require_in_service
from sources.state.action_log import read_actions
from sources.state.generation import read_generation
from sources.storage.folder import Folder
from spark_jobs.run_state.table_locks import take_switch_lock
from spark_jobs.table.ownership.belonging import require_belonging
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
# Each step of the way back.
BACK: list[tuple[Any, str]] = [
    (Folder, "replace_known"),
    (switch_steps, "take_back"),
    (switch_steps, "prepare"),
    (TakeOver, "commit"),
    (switch_steps, "release"),
    (group_steps, "give_up"),
    (Folder, "delete"),
]
Change = Callable[[Sequence[LoadedPipeline]], object]
CHANGES: dict[str, Change] = {"promotion": promote_group, "rollback": roll_back_group}


def places(steps: list[tuple[Any, str]], calls: int) -> list[Any]:
    """Before and after each call of a step, of either change, whichever pipeline comes next.

    Some are fast tests: each is another step, call and side of it.
    """
    every = [
        (kind, first, (where, name, nth, done))
        for kind in CHANGES
        for first in (0, 1)
        for where, name in steps
        for nth in range(1, calls + 1)
        for done in (0, 1)
    ]
    return [
        pytest.param(*each, marks=[pytest.mark.slow] * (i % 17 > 0)) for i, each in enumerate(every)
    ]


def pair(folder: Path) -> tuple[GenerationCase, GenerationCase]:
    """Two pipelines, each with a generation that serves and a candidate."""
    for name in ("one", "other"):
        (folder / name).mkdir()
    return two(folder / "one"), two(folder / "other")


def group(cases: tuple[GenerationCase, ...], change: Change = promote_group) -> None:
    change([case.loaded for case in cases])


def broken_off(
    cases: tuple[GenerationCase, ...],
    monkeypatch: pytest.MonkeyPatch,
    at: tuple[Any, str, int, int],
    change: Change = promote_group,
) -> bool:
    """Break a change off like a kill, before (0) or after (1) the nth call of a step."""
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
            group(cases, change)
        except KeyboardInterrupt:
            return True
    return False


def seen(cases: tuple[GenerationCase, ...]) -> list[dict[int, int]]:
    return [case.seen() for case in cases]


def test_all_candidates_are_promoted_and_all_are_rolled_back(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    said: list[str] = []
    served = promote_group([case.loaded for case in cases], by="ada", say=said.append)
    assert [each.generation for each in served] == ["g2", "g2"]
    assert seen(cases) == [NEW, NEW]
    assert said[0] == "checked: g2 of events, g2 of events can be promoted"
    for case in cases:
        assert (read_serving(case.loaded).generation, read_serving(case.loaded).by) == ("g2", "ada")
        actions = [(each.action, each.outcome) for each in read_actions(case.loaded.state)]
        assert actions[-1] == ("promotion", "done")
    said.clear()
    served = roll_back_group([case.loaded for case in cases], by="bob", say=said.append)
    assert [(each.generation, each.by) for each in served] == [("g1", "bob")] * 2
    assert said[0] == "checked: g1 of events, g1 of events can be rolled back to"
    assert seen(cases) == [OLD, OLD]
    # And forward again.
    group(cases, roll_back_group)
    assert seen(cases) == [NEW, NEW]


@pytest.mark.parametrize(("kind", "first", "at"), places(STEPS, 4), ids=str)
def test_one_that_breaks_off_anywhere_ends_with_all_or_none_by_whoever_comes_next(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    first: int,
    at: tuple[Any, str, int, int],
) -> None:
    cases = pair(tmp_path)
    change, none, all_of_them = CHANGES[kind], [OLD, OLD], [NEW, NEW]
    if kind == "rollback":
        group(cases)
        none, all_of_them = all_of_them, none
    if not broken_off(cases, monkeypatch, at, change):
        assert seen(cases) == all_of_them
        return
    # The supervision looks after each pipeline; one of them comes first.
    for case in (cases[first], cases[1 - first]):
        promotion.finish(case.loaded)
    found = seen(cases)
    assert found in (none, all_of_them)
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
    if found == none:
        # Nothing of it is left: the same can be done again.
        group(cases, change)
        assert seen(cases) == all_of_them
    if cases[0].loaded.state.exists(Group.NAME):
        # Killed after the last switch: the next one of these pipelines removes the record.
        with pytest.raises(StateError, match="has no candidate"):
            group(cases)
    assert [case.loaded.state.exists(Group.NAME) for case in cases] == [False, False]


def half_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> tuple[tuple[GenerationCase, ...], list[dict[int, int]]]:
    """A group whose first table is changed, and whose second one can never be; what was seen."""
    cases = pair(folder)
    if kind == "promotion":
        lost = folder / "other/out.g2"
    else:
        group(cases)
        # The rows of the generation before.
        table = DeltaTable(cases[1].loaded.target.url, version=1)
        [lost] = [Path(file) for file in table.file_uris()]
    before = seen(cases)
    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 2, 0), CHANGES[kind])
    assert seen(cases)[1] == before[1]
    assert seen(cases)[0] != before[0]
    if lost.is_dir():
        shutil.rmtree(lost)
    else:
        lost.unlink()
    return cases, before


@pytest.mark.parametrize("kind", CHANGES)
def test_one_that_can_never_be_completed_says_who_is_changed_and_goes_back_in_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    cases, before = half_done(tmp_path, monkeypatch, kind)
    to, served = ("g2", "g1") if kind == "promotion" else ("g1", "g2")
    for case in cases:
        with pytest.raises(HybridError) as caught:
            promotion.finish(case.loaded)
        assert f"Of the group, readers see {to} of `events` already" in caught.value.message
        abort = f"generation abort {cases[0].loaded.path}"
        assert abort in caught.value.hint
        # None of them runs meanwhile.
        with pytest.raises(StateError, match="is under way"):
            require_in_service(case.loaded, read_generation(case.loaded.state, to))
    aborted = promotion.abort(cases[1].loaded)
    assert aborted is not None
    assert seen(cases) == before
    for case in cases:
        assert pending_switch(case.loaded) is None
        assert read_serving(case.loaded).generation == served
        assert read_actions(case.loaded.state)[-1].outcome == "given up"
        assert not case.loaded.state.exists(Group.NAME)
        # Its run may go on: table, state and checkpoint belong together.
        require_belonging(case.loaded, read_generation(case.loaded.state, served))
    # The first one can be changed again, as if nothing had been.
    one = cases[0]
    assert call(one, "promote" if kind == "promotion" else "rollback")["serving"] == to
    assert one.seen() != before[0]


@pytest.mark.parametrize(("kind", "first", "at"), places(BACK, 2), ids=str)
def test_a_way_back_that_breaks_off_anywhere_ends_with_none_by_whoever_comes_next(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    first: int,
    at: tuple[Any, str, int, int],
) -> None:
    cases, before = half_done(tmp_path, monkeypatch, kind)

    def abort(_: Sequence[LoadedPipeline]) -> None:
        promotion.abort(cases[first].loaded)

    if broken_off(cases, monkeypatch, at, abort):
        for case in (cases[1 - first], cases[first]):
            try:
                promotion.finish(case.loaded)
            except HybridError:
                # Killed before the way back was recorded: it is tried again forwards.
                promotion.abort(case.loaded)
    if cases[0].loaded.state.exists(Group.NAME):
        # Killed after the last switch was removed: the next change of the group removes the record.
        with pytest.raises(HybridError):
            group(cases, CHANGES[kind])
    assert seen(cases) == before
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
    assert [case.loaded.state.exists(Group.NAME) for case in cases] == [False, False]


def test_a_table_that_can_not_be_written_any_more_holds_up_no_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    commit, other = TakeOver.commit, cases[1].loaded.target.url

    def read_only(own: TakeOver, *args: Any) -> None:
        if own.table.folder.url == other:
            raise StateError("The folder can't be written.", "")
        commit(own, *args)

    def undo(_: TakeOver) -> None:
        raise StateError("The folder can't be written.", "")

    monkeypatch.setattr(TakeOver, "commit", read_only)
    monkeypatch.setattr(TakeOver, "undo", undo)
    with pytest.raises(StateError, match=r"can't be written\. Of the group, readers see g2"):
        group(cases)
    assert seen(cases) == [NEW, OLD]
    promotion.abort(cases[0].loaded)
    assert seen(cases) == [OLD, OLD]
    monkeypatch.undo()
    group(cases)
    assert seen(cases) == [NEW, NEW]


def test_a_candidate_that_was_discarded_meanwhile_holds_up_no_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 1, 1))
    other = cases[1].loaded
    switch = pending_switch(other)
    assert switch is not None
    # By a process that was suspended, and does not see the promotion.
    other.state.delete(Switch.NAME)
    discards.discard(other)
    other.state.put_if_absent(Switch.NAME, switch)
    with pytest.raises(StateError, match="g2 is not promoted: it is gone"):
        promotion.finish(other)
    promotion.abort(other)
    assert seen(cases) == [OLD, OLD]
    assert [pending_switch(case.loaded) for case in cases] == [None, None]


def test_one_that_is_rolled_back_alone_tells_of_the_others_and_is_not_rolled_back_with_them_again(
    tmp_path: Path,
) -> None:
    cases = pair(tmp_path)
    group(cases)
    one, other = (case.loaded for case in cases)
    said: list[str] = []
    promotion.roll_back(one, say=said.append)
    assert f"together with those of {other.path}, which stay as they are" in said[0]
    assert f"generation rollback {other.path}" in said[0]
    assert seen(cases) == [OLD, NEW]
    # It would go forward.
    with pytest.raises(StateError, match="was promoted or rolled back alone") as caught:
        group(cases, roll_back_group)
    assert f"generation rollback {other.path}" in caught.value.hint
    assert seen(cases) == [OLD, NEW]
    said.clear()
    promotion.roll_back(other, say=said.append)
    assert f"together with those of {one.path}" in said[0]
    assert seen(cases) == [OLD, OLD]


def test_those_that_were_never_promoted_together_can_be_rolled_back_together(
    tmp_path: Path,
) -> None:
    cases = pair(tmp_path)
    for case in cases:
        promotion.promote(case.loaded)
    group(cases, roll_back_group)
    assert seen(cases) == [OLD, OLD]


def test_one_without_an_earlier_generation_refuses_the_rollback_of_all(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    promotion.promote(cases[0].loaded)
    with pytest.raises(StateError, match="nothing to roll back to"):
        group(cases, roll_back_group)
    assert seen(cases) == [NEW, OLD]


def test_each_of_them_has_approvers_of_its_own(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    cases[1].write(approvers=["Ada"])
    files = [case.loaded for case in cases]
    for change in (promote_group, roll_back_group):
        with pytest.raises(InputError, match="`Bob` may not"):
            change(files, by="Bob")
    assert seen(cases) == [OLD, OLD]
    promote_group(files, by="Ada")
    roll_back_group(files, by="Ada")
    assert [read_serving(each).by for each in files] == ["Ada", "Ada"]


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
    group(cases)
    assert seen(cases) == [NEW, NEW]


def test_a_process_that_another_one_overtook_changes_nothing_and_names_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    check = group_steps.check

    def overtaken(found: Group, loaded: Any, say: Any) -> None:
        check(found, loaded, say)
        other = found.model_copy(update={"at_ms": found.at_ms + 1})
        loaded[found.members[0].file].state.put_if_absent(Group.NAME, other)

    with monkeypatch.context() as patched:
        patched.setattr(group_steps, "check", overtaken)
        with pytest.raises(StateError, match="It has changed no table") as caught:
            group(cases)
    assert caught.value.transient
    for case in cases:
        assert f"generation list {case.loaded.path}`" in caught.value.hint
    assert seen(cases) == [OLD, OLD]
    # As the hint says: what the other one left is settled first.
    group(cases)
    assert seen(cases) == [NEW, NEW]


def test_it_can_be_aborted_until_the_last_table_is_changed(
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
    promotion.abort(cases[1].loaded)
    assert seen(cases) == [OLD, OLD]


@pytest.mark.parametrize("at", [(TakeOver, "commit", 2, 1), (surplus, "clean", 1, 0)], ids=str)
def test_one_whose_tables_are_all_changed_is_not_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str, int, int]
) -> None:
    cases = pair(tmp_path)
    assert broken_off(cases, monkeypatch, at)
    assert seen(cases) == [NEW, NEW]
    with pytest.raises(StateError, match="can't be aborted: it is committed"):
        promotion.abort(cases[1].loaded)
    promotion.finish(cases[1].loaded)
    assert seen(cases) == [NEW, NEW]
    assert [pending_switch(case.loaded) for case in cases] == [None, None]


def test_a_switch_of_a_group_that_is_gone_is_given_up(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    one = cases[0].loaded
    left = Switch(to="g2", past="g1", at_ms=1, is_rollback=False, group=str(one.path))
    cases[1].loaded.state.put_if_absent(Switch.NAME, left)
    promotion.finish(cases[1].loaded)
    assert pending_switch(cases[1].loaded) is None
    group(cases)
    assert seen(cases) == [NEW, NEW]


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


def test_the_commands_promote_and_roll_back_several_pipelines(tmp_path: Path) -> None:
    cases = pair(tmp_path)
    done = call(cases[0], "promote", str(cases[1].loaded.path))
    assert [each["serving"] for each in done["served"]] == ["g2", "g2"]
    assert seen(cases) == [NEW, NEW]
    done = call(cases[0], "rollback", str(cases[1].loaded.path))
    assert [each["serving"] for each in done["served"]] == ["g1", "g1"]
    assert seen(cases) == [OLD, OLD]


def test_an_interrupt_says_where_each_of_them_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    said: list[str] = []

    def told(pipelines: Sequence[LoadedPipeline]) -> None:
        promote_group(pipelines, say=said.append)

    assert broken_off(cases, monkeypatch, (TakeOver, "commit", 2, 0), told)
    for line, case in zip(said[-2:], reversed(cases), strict=True):
        assert "of which all are changed or none" in line
        assert f"generation abort {case.loaded.path}" in line
