"""Processes that were suspended for longer than their lock lose nothing that others began."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybrid_extensions.generations import discards
from hybrid_extensions.generations.files.take_over import OutdatedError, TakeOver
from hybrid_extensions.generations.lifecycle import discard
from hybrid_extensions.generations.switch import group_steps, promotion
from hybrid_extensions.generations.switch import run as switch_run
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_switch import roll_back_group
from sources import generations
from sources.errors import StateError
from sources.generations import begin
from sources.serving import Switch, newest_generation, pending_switch, read_serving
from sources.state.generation import (
    CURRENT,
    CurrentGeneration,
    is_there,
    mark_removed,
    read_generation,
)
from sources.storage.folder import Folder
from spark_jobs.checkpoint.offset_log import query_id
from spark_jobs.table.delta_table import NO_MORE, transactions_of
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.hybrid_extensions.generations.test_group_promotion import group, pair, seen
from tests.hybrid_extensions.generations.test_switch import broken_off
from tests.orchestration.generations.generation_case import GenerationCase


def before(patch: pytest.MonkeyPatch, where: Any, name: str, others: Callable[[], object]) -> None:
    """Let others do something at the moment when a function is called for the first time."""
    real = getattr(where, name)

    def suspended(*args: Any, **options: Any) -> Any:
        patch.undo()
        others()
        return real(*args, **options)

    patch.setattr(where, name, suspended)


def test_a_discard_that_wakes_up_during_a_promotion_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    switch = Switch(to="g2", past="g1", at_ms=1, is_rollback=False)
    begun = lambda: case.loaded.state.put_if_absent(Switch.NAME, switch)  # noqa: E731
    before(monkeypatch, discards, "mark_removed", begun)
    with pytest.raises(StateError, match="another process has begun to promote it") as refused:
        discard(case.loaded)
    assert refused.value.transient
    promotion.finish(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")
    assert is_there(case.loaded.state, "g2")


def test_a_discard_that_wakes_up_after_a_promotion_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    before(monkeypatch, discards, "mark_removed", lambda: promote_beside(case, monkeypatch))
    with pytest.raises(StateError, match="another process has begun to promote it"):
        discard(case.loaded)
    assert is_there(case.loaded.state, "g2")
    assert case.seen() == NEW
    assert begin(case.loaded).name == "g3"
    assert is_there(case.loaded.state, "g2")


def test_a_discard_that_wakes_up_removes_no_generation_that_was_begun_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)

    def discarded_and_begun() -> None:
        discards.discard(case.loaded)
        begin(case.loaded)

    before(monkeypatch, discards, "require_candidate", discarded_and_begun)
    with pytest.raises(StateError, match=r"g2 .* another one has discarded or promoted it"):
        discard(case.loaded)
    before(monkeypatch, discards, "mark_removed", discarded_and_begun)
    with pytest.raises(StateError, match=r"g3 .* another one has discarded or promoted it"):
        discard(case.loaded)
    assert [each.name for each in generations.generations(case.loaded)] == ["g1", "g4"]
    case.run(NEW)
    promotion.promote(case.loaded)
    assert case.seen() == NEW


def test_what_a_killed_discard_has_marked_can_be_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    mark_removed(case.loaded.state, "g2")
    promotion.promote(case.loaded)
    assert (case.seen(), is_there(case.loaded.state, "g2")) == (NEW, True)
    assert begin(case.loaded).name == "g3"


def test_a_discard_that_has_looked_and_wakes_up_after_that_promotion_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    promoted = lambda: promote_beside(case, monkeypatch)  # noqa: E731
    before(monkeypatch, Folder, "replace_known", promoted)
    with pytest.raises(StateError, match=r"g2 .* is not discarded"):
        discard(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")
    assert case.loaded.state.exists("g2/generation.json")


def test_a_promotion_of_what_was_discarded_meanwhile_gives_up_and_nothing_is_left_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    before(monkeypatch, promotion, "begin_action", lambda: discards.discard(case.loaded))
    with pytest.raises(StateError, match=r"g2 is not promoted: .* g1 serves as before"):
        promotion.promote(case.loaded)
    assert pending_switch(case.loaded) is None
    assert case.seen() == OLD
    assert begin(case.loaded).name == "g3"


def test_the_mark_of_a_discard_that_was_killed_during_a_promotion_removes_nothing_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    marked = lambda: mark_removed(case.loaded.state, "g2")  # noqa: E731
    before(monkeypatch, switch_steps, "record", marked)
    promotion.promote(case.loaded)
    assert is_there(case.loaded.state, "g2")
    # One that is marked even later.
    mark_removed(case.loaded.state, "g2")
    begin(case.loaded)
    assert case.seen() == NEW
    assert case.loaded.state.exists("g2/generation.json")


def test_a_query_of_the_past_generation_that_was_never_begun_is_kept_out_by_the_promotion(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    past = read_generation(case.loaded.state, "g1")
    # Its driver was suspended before the first start of its query.
    past.checkpoint.delete("metadata")
    promotion.promote(case.loaded)
    query = query_id(past.checkpoint)
    assert query is not None
    assert transactions_of(case.loaded.target, [query]) == {query: NO_MORE}


def test_a_promotion_that_wakes_up_after_others_have_ended_it_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)

    def finished_and_rolled_back() -> None:
        monkeypatch.setattr(promotion, "hold_switch_lock", lambda *_: nullcontext(Held()))
        promotion.finish(case.loaded)
        promotion.roll_back(case.loaded)

    first = switch_steps.commit

    def suspended(*switch: Any) -> Any:
        monkeypatch.undo()
        before(monkeypatch, switch_steps, "changed", finished_and_rolled_back)
        return first(*switch)

    monkeypatch.setattr(switch_steps, "commit", suspended)
    with pytest.raises(StateError, match="another one has continued or ended it meanwhile"):
        promotion.promote(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (OLD, "g1")
    assert pending_switch(case.loaded) is None


def aborted(case: GenerationCase) -> None:
    """Give a promotion up as a process does for which the lock has expired."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promotion, "hold_switch_lock", lambda *_: nullcontext(Held()))
        assert promotion.abort(case.loaded) is not None


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (TakeOver, "commit"),
        # The other table's files are in the target by then.
        (TakeOver, "_actions"),
    ],
)
def test_a_promotion_that_wakes_up_right_before_its_commit_does_not_make_it_after_an_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    case = two(tmp_path)
    before(monkeypatch, where, name, lambda: aborted(case))
    with pytest.raises(StateError, match="another one has continued or ended it meanwhile"):
        promotion.promote(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (OLD, "g1")
    assert pending_switch(case.loaded) is None
    discard(case.loaded)
    assert case.seen() == OLD
    begin(case.loaded)
    case.run(NEW)
    promotion.promote(case.loaded)
    assert case.seen() == NEW


def test_an_abort_that_a_suspended_promotion_precedes_by_its_commit_is_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    first = broken_off_before_its_commit(case, monkeypatch)
    before(monkeypatch, switch_steps, "read_snapshot", first)
    with pytest.raises(StateError, match="it is committed"):
        promotion.abort(case.loaded)
    promotion.finish(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")
    promotion.roll_back(case.loaded)
    assert case.seen() == OLD


def test_what_another_process_has_committed_meanwhile_is_not_committed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)

    def committed() -> None:
        switch = pending_switch(case.loaded)
        assert switch is not None
        switch_steps.commit(case.loaded, switch)

    before(monkeypatch, TakeOver, "commit", committed)
    promotion.promote(case.loaded)
    assert case.seen() == NEW
    promotion.roll_back(case.loaded)
    assert case.seen() == OLD


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (switch_steps, "record"),
        (switch_steps, "record_moved_rows"),
        (switch_steps, "write_serving"),
        (switch_run, "end_action"),
    ],
)
@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_promotion_that_wakes_up_after_its_commit_undoes_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, is_under_way: bool
) -> None:
    case = two(tmp_path)
    later = {5: 50}

    def finished_and_promoted_again() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(promotion, "hold_switch_lock", lambda *_: nullcontext(Held()))
            promotion.finish(case.loaded)
            begin(case.loaded)
            case.run(later)
            if is_under_way:
                broken_off(case, patch, (switch_steps, "record", False))
            else:
                promotion.promote(case.loaded)

    before(monkeypatch, where, name, finished_and_promoted_again)
    with pytest.raises(StateError, match="another one has continued or ended it meanwhile"):
        promotion.promote(case.loaded)
    assert promotion.finish(case.loaded) == is_under_way
    assert (case.seen(), read_serving(case.loaded).generation) == (later, "g3")
    promotion.roll_back(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")


def broken_off_before_its_commit(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], object]:
    """Break a promotion off before its commit; return what makes that commit."""
    made: list[tuple[TakeOver, tuple[Any, ...]]] = []
    real = TakeOver.commit
    monkeypatch.setattr(TakeOver, "commit", lambda *args: made.append((args[0], args[1:])))
    broken_off(case, monkeypatch, (TakeOver, "commit", True))
    monkeypatch.undo()
    [(ready, args)] = made
    return lambda: real(ready, *args)


def test_a_new_generation_that_wakes_up_after_a_discard_brings_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    discards.discard(case.loaded)

    def begun_and_discarded() -> None:
        begin(case.loaded)
        discards.discard(case.loaded)

    before(monkeypatch, generations, "make_generation", begun_and_discarded)
    with pytest.raises(StateError, match="another process has begun or discarded one"):
        begin(case.loaded)
    current = case.loaded.state.read(CURRENT, CurrentGeneration)
    assert current == CurrentGeneration(generation="g1", last="g3")
    assert "g3" not in case.loaded.state.folders()
    assert begin(case.loaded).name == "g4"


def test_a_new_generation_whose_process_is_killed_leaves_none_that_nobody_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    discards.discard(case.loaded)

    def killed() -> None:
        raise KeyboardInterrupt

    before(monkeypatch, Folder, "replace_known", killed)
    with pytest.raises(KeyboardInterrupt):
        begin(case.loaded)
    begun = begin(case.loaded)
    assert [each.name for each in generations.generations(case.loaded)] == ["g1", begun.name]
    discards.discard(case.loaded)
    assert newest_generation(case.loaded) == "g1"


def commits_between(patch: pytest.MonkeyPatch, often: int) -> list[TakeOver]:
    """Let other writers commit right before a switch does, so often; return the switch's tries."""
    tries: list[TakeOver] = []
    real = TakeOver.commit

    def commit(ready: TakeOver, *args: Any) -> None:
        tries.append(ready)
        if len(tries) <= often:
            other = {"other.writer": f"{len(tries)}"}
            table = DeltaTable(ready.table.folder.url)
            table.alter.set_table_properties(other, raise_if_not_exists=False)
        real(ready, *args)

    patch.setattr(TakeOver, "commit", commit)
    return tries


@pytest.mark.parametrize(("often", "seen"), [(2, NEW), (3, OLD)])
def test_a_switch_that_others_commit_before_is_tried_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int, seen: dict[int, int]
) -> None:
    case = two(tmp_path)
    tries = commits_between(monkeypatch, often)
    with nullcontext() if seen == NEW else pytest.raises(OutdatedError):
        promotion.promote(case.loaded)
    assert len(tries) == 3
    assert case.seen() == seen


@pytest.mark.parametrize(("often", "seen"), [(2, OLD), (3, NEW)])
def test_the_way_back_that_others_commit_before_is_tried_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int, seen: dict[int, int]
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, (TakeOver, "commit", True))
    switch = pending_switch(case.loaded)
    assert switch is not None
    tries = commits_between(monkeypatch, often)
    with nullcontext() if seen == OLD else pytest.raises(OutdatedError):
        switch_steps.take_back(case.loaded, switch)
    assert len(tries) == 3
    assert case.seen() == seen


class Held:
    """A lock that nobody asks for."""

    note = staticmethod(lambda _: None)


def promote_beside(case: GenerationCase, patch: pytest.MonkeyPatch) -> None:
    """Promote as a process does for which the lock has expired."""
    without_lock(patch)
    promotion.promote(case.loaded)


def without_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(promotion, "hold_switch_lock", lambda *_: nullcontext(Held()))


def test_a_rollback_that_wakes_up_after_another_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)

    def others() -> None:
        without_lock(monkeypatch)
        promotion.roll_back(case.loaded)
        monkeypatch.undo()

    before(monkeypatch, promotion, "begin_action", others)
    with pytest.raises(StateError, match="another process has changed meanwhile") as refused:
        promotion.roll_back(case.loaded)
    assert refused.value.transient
    assert (case.seen(), read_serving(case.loaded).generation) == (OLD, "g1")
    assert pending_switch(case.loaded) is None
    # It can be done the other way round.
    promotion.roll_back(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")


def test_a_promotion_that_wakes_up_after_later_ones_forgets_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)

    def others() -> None:
        promote_beside(case, monkeypatch)
        begin(case.loaded)
        case.run(OLD)
        promote_beside(case, monkeypatch)
        monkeypatch.undo()

    before(monkeypatch, promotion, "begin_action", others)
    with pytest.raises(StateError, match="promotion of g2 was begun while g1 served"):
        promotion.promote(case.loaded)
    serving = read_serving(case.loaded)
    assert (serving.generation, serving.before[-1].generation) == ("g3", "g2")
    assert (case.seen(), pending_switch(case.loaded)) == (OLD, None)


@pytest.mark.parametrize("command", [promotion.finish, promotion.abort])
def test_a_switch_that_was_outdated_when_it_was_recorded_is_given_up(
    tmp_path: Path, command: Callable[..., object]
) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    promotion.roll_back(case.loaded)
    outdated = Switch(to="g1", past="g2", at_ms=1, is_rollback=True)
    case.loaded.state.put_if_absent(Switch.NAME, outdated)
    with pytest.raises(StateError) if command is promotion.finish else nullcontext():
        command(case.loaded)
    assert pending_switch(case.loaded) is None
    assert (case.seen(), read_serving(case.loaded).generation) == (OLD, "g1")


def served_alone(folder: Path) -> GenerationCase:
    """Only the generation that serves is there."""
    case = two(folder)
    promotion.promote(case.loaded)
    return case


def test_a_discard_marks_no_generation_that_was_begun_between_its_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = served_alone(tmp_path)
    before(monkeypatch, discards, "require_candidate", lambda: begin(case.loaded))
    with pytest.raises(StateError, match=r"g3 .* is not discarded by this process"):
        discards.discard(case.loaded)
    assert is_there(case.loaded.state, "g3")


def test_a_begin_that_wakes_up_removes_nothing_of_what_is_newest_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = served_alone(tmp_path)

    def others() -> None:
        begin(case.loaded)
        # A discard was killed right after.
        mark_removed(case.loaded.state, "g3")

    before(monkeypatch, generations, "_require_definition", others)
    with pytest.raises(StateError, match="another process has begun or discarded one"):
        begin(case.loaded)
    assert newest_generation(case.loaded) == "g3"
    assert read_generation(case.loaded.state, "g3").name == "g3"


def test_a_group_that_wakes_up_after_one_of_it_was_rolled_back_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = pair(tmp_path)
    group(cases)
    stopped: list[Any] = []

    def others() -> None:
        with monkeypatch.context() as patch:
            without_lock(patch)
            promotion.roll_back(cases[0].loaded)
        monkeypatch.setattr(switch_steps, "end_runs", lambda *of: stopped.append(of))

    before(monkeypatch, group_steps, "begin_action", others)
    with pytest.raises(StateError, match="rollback of g1 was begun while g2 served"):
        group(cases, roll_back_group)
    assert (stopped, seen(cases)) == ([], [OLD, NEW])
    assert [pending_switch(case.loaded) for case in cases] == [None, None]
