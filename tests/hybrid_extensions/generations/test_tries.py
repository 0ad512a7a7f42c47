"""What other commits come in between of is tried three times; one failure stops no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.generations.files.take_over import OutdatedError, TakeOver
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.run import do_all
from sources.errors import InputError, StateError
from sources.serving import is_replaced, pending_switch, read_serving
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.hybrid_extensions.generations.test_group_promotion import half_done, seen


def overtaken(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let another writer be quicker so many times; returns the versions that were tried."""
    commit, tried = TakeOver.commit, list[int]()

    def late(own: TakeOver, *args: Any) -> None:
        tried.append(own.table.version)
        if len(tried) <= times:
            message = "Another writer has committed to the table in the meantime."
            raise OutdatedError(message, "", transient=True)
        commit(own, *args)

    monkeypatch.setattr(TakeOver, "commit", late)
    return tried


def test_a_promotion_that_is_overtaken_twice_is_made_by_its_third_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    tried = overtaken(monkeypatch, 2)
    promotion.promote(case.loaded)
    assert (len(tried), case.seen()) == (3, NEW)
    assert is_replaced(case.loaded, "g1")
    assert not is_replaced(case.loaded, "g2")
    assert not is_replaced(case.loaded, "g3"), "one that never served is replaced by nothing"


def test_a_promotion_that_is_overtaken_each_time_is_not_made_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    with monkeypatch.context() as patch:
        tried = overtaken(patch, 3)
        with pytest.raises(OutdatedError):
            promotion.promote(case.loaded)
    assert (len(tried), case.seen()) == (3, OLD)
    assert read_serving(case.loaded).generation == "g1"
    assert pending_switch(case.loaded) is not None
    assert promotion.finish(case.loaded)
    assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")
    # There is nothing left to finish.
    assert promotion.finish(case.loaded) is False


@pytest.mark.parametrize("times", [2, 3])
def test_a_way_back_is_tried_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    cases, before = half_done(tmp_path, monkeypatch, "promotion")
    with monkeypatch.context() as patch:
        tried = overtaken(patch, times)
        if times < 3:
            promotion.abort(cases[0].loaded)
        else:
            with pytest.raises(OutdatedError):
                promotion.abort(cases[0].loaded)
    # At the end an empty commit keeps the one out that the other table was prepared for.
    assert tried == ([2, 2, 2, 1] if times < 3 else [2, 2, 2])
    if times == 3:
        assert seen(cases) != before
        promotion.abort(cases[0].loaded)
    assert seen(cases) == before
    assert [pending_switch(case.loaded) for case in cases] == [None, None]


def test_the_first_error_is_raised_once_all_others_were_tried() -> None:
    done: list[int] = []

    def fails_at_odd(number: int) -> None:
        done.append(number)
        if number % 2:
            message = f"No {number}."
            raise StateError(message, "")

    with pytest.raises(StateError, match="No 1"):
        do_all([0, 1, 2, 3, 4], fails_at_odd)
    assert done == [0, 1, 2, 3, 4]
    do_all([0, 2], fails_at_odd)

    def breaks(number: int) -> None:
        done.append(number)
        message = "a defect"
        raise ValueError(message)

    done.clear()
    # What is no refusal of the project is a defect: nothing more is done.
    with pytest.raises(ValueError, match="a defect"):
        do_all([0, 1], breaks)
    assert done == [0]
    with pytest.raises(InputError, match="first"):
        do_all([InputError("first", ""), StateError("second", "")], _raise)


def _raise(error: Exception) -> None:
    raise error
