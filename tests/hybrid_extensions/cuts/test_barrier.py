"""The protocol of a barrier: any order of steps, and any death, leads to a right cut or to none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from hybrid_extensions.cuts.barrier import BarrierStep, Crossing, step


def crossed(batch: int, version: int | None = 7, failure: str | None = None) -> Crossing:
    return Crossing(number=1, batch=batch, table_version=version, failure=failure)


def test_a_barrier_divides_only_the_first_batch_with_changes_from_behind_it() -> None:
    assert step(3, 5, 0, None, is_barred=False) is BarrierStep.WHOLE
    assert step(3, 0, 5, None, is_barred=False) is BarrierStep.CROSS
    assert step(3, 5, 5, None, is_barred=False) is BarrierStep.SPLIT
    assert step(4, 0, 5, crossed(3), is_barred=False) is BarrierStep.WHOLE
    # Repeated after a failure, it is the same batch.
    assert step(3, 5, 5, crossed(3), is_barred=True) is BarrierStep.WHOLE


def test_a_change_from_before_the_barrier_that_comes_after_the_crossing_gives_it_up() -> None:
    assert step(4, 1, 5, crossed(3), is_barred=False) is BarrierStep.LATE
    given_up = crossed(3, None, "late")
    assert step(5, 1, 5, given_up, is_barred=False) is BarrierStep.WHOLE


def test_a_barrier_that_is_older_than_the_query_divides_nothing() -> None:
    assert step(3, 5, 5, None, is_barred=True) is BarrierStep.BARRED
    # Nothing is to be merged under the barrier's transaction.
    assert step(3, 0, 5, None, is_barred=True) is BarrierStep.CROSS


@dataclass
class Driver:
    """A table whose driver merges batches of positions by the rule, and may die at any step.

    ``versions[n]`` is what version n of the table holds.
    """

    versions: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    crossing: Crossing | None = None
    barred: bool = False
    written: int = -1

    def merge(self, batch: int, changes: list[int], barrier: int, dies_after: int) -> bool:
        """Merge a batch; whether the driver lived to commit it."""
        before = [each for each in changes if each < barrier]
        behind = [each for each in changes if each >= barrier]
        decided = step(batch, len(before), len(behind), self.crossing, is_barred=self.barred)
        steps: list[Callable[[], None]] = [lambda: self.rest(batch, changes)]
        if decided in (BarrierStep.LATE, BarrierStep.BARRED):
            steps.insert(0, lambda: self.answer(crossed(batch, None, "given up")))
        elif decided is BarrierStep.CROSS:
            steps.insert(0, lambda: self.answer(crossed(batch, len(self.versions) - 1)))
        elif decided is BarrierStep.SPLIT:
            steps = [
                lambda: self.commit(before),
                lambda: self.answer(crossed(batch, len(self.versions) - 1)),
                lambda: self.rest(batch, behind),
            ]
        for number, each in enumerate(steps):
            if number == dies_after:
                # The next driver begins.
                self.barred = True
                return False
            each()
        if dies_after == len(steps):
            self.barred = True
            return False
        return True

    def answer(self, crossing: Crossing) -> None:
        self.crossing = crossing

    def commit(self, changes: list[int]) -> None:
        self.versions.append(self.versions[-1] | frozenset(changes))

    def rest(self, batch: int, changes: list[int]) -> None:
        if batch > self.written:
            self.written = batch
            self.commit(changes)


@given(
    batches=st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=6),
    barrier=st.integers(0, 21),
    deaths=st.lists(st.integers(0, 3), max_size=4),
)
@example(batches=[[1, 9]], barrier=5, deaths=[1])
@example(batches=[[1, 9]], barrier=5, deaths=[2])
@example(batches=[[9], [1]], barrier=5, deaths=[])
def test_nothing_is_lost_and_an_answer_is_the_changes_from_before_the_barrier(
    batches: list[list[int]], barrier: int, deaths: list[int]
) -> None:
    driver, left = Driver(), list(deaths)
    for number, changes in enumerate(batches):
        while not driver.merge(number, changes, barrier, left.pop() if left else -1):
            pass
    every = frozenset(each for changes in batches for each in changes)
    assert driver.versions[-1] == every
    if driver.crossing is None:
        assert all(each < barrier for each in every)
    elif driver.crossing.table_version is not None:
        held = driver.versions[driver.crossing.table_version]
        assert held == {each for each in every if each < barrier}
