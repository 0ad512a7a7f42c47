"""Locks on a file system: one holder at a time, seen by others, and free once it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sources.errors import StateError
from sources.state.generation import Generation, make_generation
from sources.storage.folder import Folder
from spark_jobs.run_state import driver_lock, lock, table_locks
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.lock import Lock
from tests.services.processes import is_awaited, wait_for


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return make_generation(Folder(tmp_path / "state"), "g1", {})


def test_two_drivers_never_share_a_checkpoint(generation: Generation) -> None:
    assert not driver_lock.is_held(generation)
    with QueryLock(generation) as held:
        assert not held.is_lease
        held.require_held()
        assert driver_lock.is_held(generation)
        with pytest.raises(StateError, match="Another run of generation g1 holds") as caught:
            QueryLock(generation).__enter__()
        assert caught.value.transient
    assert not driver_lock.is_held(generation)
    assert driver_lock.seen_lease(generation) is None


TAKEN: dict[str, Callable[[Generation], Lock | None]] = {
    "launch": lambda generation: driver_lock.take_launch_lock(generation, "a"),
    "switch": lambda generation: table_locks.take_switch_lock(Folder(generation.root.parent)),
    "range": lambda generation: table_locks.take_range_lock(Folder(generation.root.parent)),
    "extension": lambda generation: lock.take_lock(Folder(generation.root.parent), "own"),
    "shared driver": lambda generation: lock.take_lock(Folder(generation.root.parent), "driver"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_lock_has_one_holder_and_is_free_afterwards(name: str, generation: Generation) -> None:
    first = TAKEN[name](generation)
    assert first is not None
    others = {other: take(generation) for other, take in TAKEN.items()}
    assert [other for other, taken in others.items() if taken is None] == [name]
    first.release()
    # A second time it does nothing.
    first.release()
    again = TAKEN[name](generation)
    assert again is not None
    for taken in (again, *others.values()):
        if taken is not None:
            taken.release()


def test_launches_and_switches_are_seen_by_others(generation: Generation) -> None:
    home = Folder(generation.root.parent)
    assert (driver_lock.is_launched(generation), table_locks.is_switching(home)) == (False, False)
    launch, switch = (
        driver_lock.take_launch_lock(generation, "a"),
        table_locks.take_switch_lock(home),
    )
    assert launch is not None
    assert switch is not None
    assert (driver_lock.is_launched(generation), table_locks.is_switching(home)) == (True, True)
    assert not driver_lock.is_held(generation), "no driver is up yet"
    launch.hand_over(1)
    switch.release()
    assert (driver_lock.is_launched(generation), table_locks.is_switching(home)) == (False, False)
    assert Path(driver_lock.launch_lock_path(generation)).exists()


def test_merges_wait_for_each_other(generation: Generation) -> None:
    done: list[str] = []

    def merge() -> None:
        with table_locks.table_turn(generation):
            done.append("second")

    waiting = threading.Thread(target=merge)
    with table_locks.table_turn(generation):
        waiting.start()
        path = generation.path("run/table.lock")
        wait_for(lambda: is_awaited(path), "the other merge")
        done.append("first")
    waiting.join()
    assert done == ["first", "second"]


def test_a_second_driver_is_told_how_to_end_the_first_and_not_the_one_that_serves(
    generation: Generation,
) -> None:
    with QueryLock(generation, "a"), pytest.raises(StateError) as refused:  # noqa: SIM117
        with QueryLock(generation, "b"):
            pass
    assert f"`hybrid stop P --generation {generation.name}`" in refused.value.hint


def test_a_lock_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="can't be taken: File exists") as caught:
        table_locks.take_switch_lock(Folder(tmp_path / "file"))
    assert not caught.value.transient
