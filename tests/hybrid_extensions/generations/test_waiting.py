"""What a promotion of several waits for, starts and publishes, without a run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.generations.switch import group_followers, group_steps, promotion
from hybrid_extensions.generations.switch.group_followers import wait_until_read
from hybrid_extensions.generations.switch.lock import hold_switch_lock
from sources.errors import StateError
from tests.orchestration.generations.generation_case import GenerationCase


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        assert self.now < 1_000, "it waits for ever"
        self.now += seconds


def waited(
    monkeypatch: pytest.MonkeyPatch, waiting: list[int], *, runs_for: float = 1_000
) -> tuple[float, list[str]]:
    """How long a follower is waited for that is stuck after 10 s, and what is said.

    Args:
        monkeypatch: Puts a clock in place.
        waiting: How many files it has yet to read, one look after the other; the last one stays.
        runs_for: How long its live run is there.
    """
    clock, said, looks = Clock(), list[str](), iter(waiting)
    last = [waiting[-1]]
    monkeypatch.setattr(group_followers, "time", clock)
    monkeypatch.setattr(group_followers, "unread", lambda _: next(looks, last[0]))
    running = SimpleNamespace(find_running=lambda *_: 1 if clock.now < runs_for else None)
    monkeypatch.setattr(group_followers, "run_control", running)
    patience = SimpleNamespace(end_stuck_after=timedelta(seconds=10))
    sources = [SimpleNamespace(name="history")]
    pipeline = SimpleNamespace(name="second", sources=sources, supervision=patience)
    context: Any = SimpleNamespace(pipeline=pipeline, generation=SimpleNamespace(poll_s=4.0))
    wait_until_read(context, said.append)
    return clock.now, said


def test_a_follower_that_has_read_everything_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waited(monkeypatch, [0]) == (0, [])


def test_one_that_reads_is_waited_for_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each file takes 8 s, and the last look is the one that finds nothing.
    files = [each for number in range(9, 0, -1) for each in (number, number)]
    told = "second: the live run reads 9 files of the table before it"
    assert waited(monkeypatch, [*files, 0]) == (72, [told])


def test_one_that_gets_no_further_is_given_up_and_so_is_one_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More that arrives is no progress of its own.
    assert waited(monkeypatch, [3, 3, 4, 5, 6])[0] == 12
    assert waited(monkeypatch, [3, 2, 2])[0] == 16
    assert waited(monkeypatch, [3], runs_for=5)[0] == 8


def test_all_live_runs_are_started_though_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def start(context: Any, _: object) -> None:
        started.append(context.name)
        if context.name == "first":
            message = "The run does not start: `hybrid run P`."
            raise StateError(message, "")

    monkeypatch.setattr(group_steps, "start", start)
    loaded = GenerationCase(tmp_path).loaded
    members: Any = [SimpleNamespace(name=name, loaded=loaded) for name in ("first", "second")]
    with pytest.raises(StateError, match=f"hybrid run {loaded.path}`"):
        group_steps.start_all(members, lambda _: None)
    assert started == ["first", "second"]


def test_whoever_finds_the_table_being_changed_is_told_the_step_that_has_begun(
    tmp_path: Path,
) -> None:
    loaded = GenerationCase(tmp_path).loaded
    loaded.open_generation(create=True)
    with hold_switch_lock(loaded, "promotion of g2", "Ada") as held:
        held.note("2 of 5: listing the files of g2")
        with pytest.raises(StateError) as refused, hold_switch_lock(loaded, "discard of g2"):
            pass
    told = "promotion of g2, requested by Ada, step 2 of 5: listing the files of g2."
    assert told in refused.value.message
    # Once it is over, nobody holds it, and nothing is left to finish.
    with hold_switch_lock(loaded, "discard of g2"):
        pass
    assert promotion.finish(loaded) is False
