"""Commits that remove files and merges take turns; where they can't, the commit is refused."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from hybrid_extensions.generations.switch import lock
from hybrid_extensions.generations.switch.merge_turn import between_merges
from sources.errors import StateError
from sources.planning.context import PipelineContext
from sources.state.generation import Generation
from spark_jobs.run_state.driver_lock import QueryLock, take_launch_lock
from spark_jobs.run_state.table_locks import table_turn, take_range_lock
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import is_awaited, wait_for

MERGE = {"sink": {"path": "out", "mode": "merge", "key": ["id"]}}


def context_of(folder: Path, **changes: object) -> PipelineContext:
    case = GenerationCase(folder)
    case.write(**changes)
    generation = case.loaded.open_generation(create=True)
    assert generation is not None
    return PipelineContext(case.loaded, generation)


def test_a_commit_waits_for_the_merge_in_progress(tmp_path: Path) -> None:
    context = context_of(tmp_path, **MERGE)
    turn, done = between_merges(context, "compaction"), threading.Event()

    def commit() -> None:
        with turn():
            done.set()

    with table_turn(context.generation):
        thread = threading.Thread(target=commit)
        thread.start()
        (file,) = context.generation.root.rglob("table.lock")
        wait_for(lambda: is_awaited(file), "the commit that waits")
        assert not done.is_set()
    thread.join(60)
    assert done.is_set()


def test_a_pipeline_that_appends_needs_no_turns(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    with table_turn(context.generation), between_merges(context, "compaction")():
        pass


@pytest.mark.parametrize("who", ["nobody", "a launch", "a driver"])
def test_with_the_state_in_a_store_a_commit_is_refused_while_a_run_may_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    context = context_of(tmp_path, **MERGE)
    monkeypatch.setattr(Generation, "is_local", False)
    turn = between_merges(context, "compaction")
    if who == "nobody":
        with turn():
            return
    if who == "a launch":
        lock = take_launch_lock(context.generation, "launch")
        assert lock is not None
        with pytest.raises(StateError, match="can't wait for the commit of a compaction"), turn():
            pass
        lock.release()
    else:
        with (
            QueryLock(context.generation, "launch"),
            pytest.raises(StateError, match="repeat the compaction"),
            turn(),
        ):
            pass
    with turn():
        pass


def test_a_backfill_that_waits_for_another_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, said, looks = context_of(tmp_path).loaded, list[str](), list[float]()
    other = take_range_lock(loaded.state)
    assert other is not None

    def look_again(after_s: float) -> None:
        looks.append(after_s)
        if looks.count(lock.POLL_S) == 3:
            other.release()

    monkeypatch.setattr(time, "sleep", look_again)
    with lock.hold_switch_lock_in_turn(loaded, "backfill of a day", said.append):
        assert take_range_lock(loaded.state) is None
    assert looks.count(lock.POLL_S) == 3
    [told] = said
    assert told.startswith("The backfill of a day waits until another backfill or upkeep")
