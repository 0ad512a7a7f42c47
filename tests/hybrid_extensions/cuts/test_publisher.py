"""Publisher and drivers in any order of their steps: a cut is right, or there is none."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.cuts import attempt as attempt_module
from hybrid_extensions.cuts.attempt import Attempt, Database, GivenUp
from hybrid_extensions.cuts.barrier import (
    Barrier,
    BarrierStep,
    Crossing,
    read_barrier,
    read_crossing,
    step,
    write_barrier,
    write_crossing,
)
from sources.storage.folder import Folder
from spark_jobs.run_state.repairs import Repair, Repairs, read_repairs
from tests.properties import examples

PARTITIONS = 2


class Table:
    """A table with its topic, and the model of a driver that reads it in micro-batches."""

    def __init__(self, world: World, folder: Path, name: str) -> None:
        self.name = name
        self.generation = Folder(folder / name)
        self.target = Folder(folder / name / "target")
        self._world = world
        # By partition: transactions whose change of this table it will hold, and how many it does.
        self.coming: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.topic = [0] * PARTITIONS
        self.committed = [0] * PARTITIONS
        self.versions: list[frozenset[int]] = [frozenset()]
        self.planned: list[int] | None = None
        self.batch = 0
        self.barred = -1
        self.written = -1
        # Transactions that the snapshot of a repair has; None if none is under way.
        self.repaired: int | None = None

    def log_end(self) -> dict[int, int]:
        ends = dict(enumerate(self.topic))
        self._world.run_a_while()
        return ends

    def unread(self, ends: dict[int, int]) -> int:
        self._world.run_a_while()
        return sum(max(end - self.committed[each], 0) for each, end in ends.items())

    def drive(self, chance: random.Random) -> None:
        """Plan a micro-batch, or merge the planned one; the driver may die at each step of that."""
        if self.planned is None:
            self.planned = list(self.topic)
            return
        barrier = read_barrier(self.generation)
        if barrier is not None and barrier.is_open:
            crossing = read_crossing(self.generation, barrier.number)
            if crossing is not None and crossing.failure is not None:
                barrier = None
            elif barrier.position is None:
                # It waits; or long enough.
                if chance.random() < 0.1:
                    self._answer(barrier, failure="waited")
                return
        else:
            barrier = None
        lives = chance.randint(1, 12)
        if self._merge(barrier, lives):
            self.committed, self.planned = self.planned, None
            self.batch += 1
        else:
            newest = read_barrier(self.generation)
            self.barred = -1 if newest is None else newest.number

    def repair(self, chance: random.Random) -> None:
        """Take a snapshot for a repair, or record the repair, or commit it; it may die before."""
        repairs = read_repairs(self.generation).repairs
        if self.repaired is None:
            self.repaired = self._world.transactions
        elif not repairs or repairs[-1].table_version is not None or chance.random() < 0.1:
            self._keep([*repairs, self._repair()])
        else:
            every = {change for part in self.coming for change in part}
            self._commit([change for change in every if change < self.repaired])
            self.repaired = None
            if chance.random() < 0.8:
                self._keep([*repairs[:-1], self._repair(repairs[-1], len(self.versions) - 1)])

    def _repair(self, known: Repair | None = None, version: int | None = None) -> Repair:
        end = f"{self._world.transactions:016x}" if known is None else known.log_end
        counts = {"missing": 1, "different": 0, "extra": 0}
        return Repair(id="r", begun_ms=1, version="", log_end=end, table_version=version, **counts)

    def _keep(self, repairs: list[Repair]) -> None:
        self.generation.replace(Repairs.NAME, Repairs(repairs=repairs))

    def _merge(self, barrier: Barrier | None, lives: int) -> bool:
        assert self.planned is not None
        changes = [
            change
            for each, (begin, end) in enumerate(zip(self.committed, self.planned, strict=True))
            for change in self.coming[each][begin:end]
        ]
        before, behind = changes, list[int]()
        decided = BarrierStep.WHOLE
        if barrier is not None and barrier.position is not None:
            before = [each for each in changes if position(each) < barrier.position]
            behind = [each for each in changes if position(each) >= barrier.position]
            answered = read_crossing(self.generation, barrier.number)
            is_barred = barrier.number <= self.barred
            decided = step(self.batch, len(before), len(behind), answered, is_barred=is_barred)
        if barrier is not None and decided in (BarrierStep.LATE, BarrierStep.BARRED):
            self._answer(barrier, failure="given up")
        if decided is BarrierStep.SPLIT:
            self._commit(before)
            if lives == 1:
                return False
        if barrier is not None and decided in (BarrierStep.SPLIT, BarrierStep.CROSS):
            self._answer(barrier, version=len(self.versions) - 1)
            if lives == 2:
                return False
        if self.written < self.batch:
            self.written = self.batch
            self._commit(behind if decided is BarrierStep.SPLIT else changes)
        return lives != 3

    def _answer(
        self, barrier: Barrier, version: int | None = None, failure: str | None = None
    ) -> None:
        answer = Crossing(
            number=barrier.number, batch=self.batch, table_version=version, failure=failure
        )
        write_crossing(self.generation, answer)

    def _commit(self, changes: list[int]) -> None:
        self.versions.append(self.versions[-1] | frozenset(changes))


class World:
    """A database, a connector and the drivers of some tables; each step is a random one."""

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance = chance
        self.tables = [Table(self, folder, name) for name in ("a", "b", "c")]
        self.transactions = 0
        self.delivered = 0

    def run_a_while(self) -> None:
        for _ in range(self._chance.randint(0, 8)):
            self._step()

    def mark(self) -> Mark:
        self.run_a_while()
        taken = self.transactions
        self.run_a_while()
        return Mark(f"{taken:016x}", str(taken), taken, datetime.now(UTC))

    def confirmed(self) -> int | str:
        self.run_a_while()
        # Confirmed is what is in all topics.
        arrived = min(
            (
                each.coming[part][each.topic[part]]
                for each in self.tables
                for part in range(PARTITIONS)
                if each.topic[part] < len(each.coming[part])
            ),
            default=self.transactions,
        )
        return min(arrived, self.transactions)

    def _step(self) -> None:
        chance, table = self._chance, self._chance.choice(self.tables)
        match chance.randrange(5):
            case 0:
                for each in chance.sample(self.tables, chance.randint(1, 3)):
                    each.coming[chance.randrange(PARTITIONS)].append(self.transactions)
                self.transactions += 1
            case 1:
                # The connector's producer: in order in a partition, and in any across them.
                part = chance.randrange(PARTITIONS)
                table.topic[part] = chance.randint(table.topic[part], len(table.coming[part]))
            case 2:
                table.repair(chance)
            case _:
                table.drive(chance)


def position(transaction: int) -> str:
    return f"{transaction:016x}{0:016x}"


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_cut_has_the_changes_from_before_its_position_and_no_others(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(random.Random(seed), Path(folder))
        tables: dict[str, Table] = {each.target.url: each for each in world.tables}

        def version_of(target: Folder) -> int:
            version = len(tables[target.url].versions) - 1
            world.run_a_while()
            return version

        monkeypatch.setattr(attempt_module, "version_of", version_of)
        world.run_a_while()
        attempts: list[Any] = [world.tables, Database(world.mark, world.confirmed), 60.0]
        found = None
        attempt = Attempt(*attempts)
        attempt.open()
        for _ in range(200):
            if (found := attempt.look()) is not None:
                break
        attempt.close()
        assert found is not None
        if isinstance(found, GivenUp):
            return
        for table in world.tables:
            held = table.versions[found[table.name].version]
            every = {each for part in table.coming for each in part}
            assert held == {each for each in every if each < attempt.mark.through}


def test_a_barrier_of_another_publisher_ends_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(random.Random(1), tmp_path)
    monkeypatch.setattr(attempt_module, "version_of", lambda _: 0)
    monkeypatch.setattr(World, "run_a_while", lambda _: None)
    attempts: list[Any] = [world.tables, Database(world.mark, world.confirmed), 60.0]
    attempt = Attempt(*attempts)
    attempt.open()
    other = Attempt(*attempts)
    other.open()
    assert attempt.look() == GivenUp("Another process publishes cuts of these tables, too.")
    attempt.close()
    replaced = read_barrier(world.tables[0].generation)
    assert replaced is not None
    assert replaced.is_open
    other.close()
    closed = read_barrier(world.tables[0].generation)
    assert closed is not None
    write_barrier(world.tables[0].generation, closed)
    assert not closed.is_open


def test_what_an_attempt_waits_for_is_said(tmp_path: Path) -> None:
    world = World(random.Random(1), tmp_path)
    attempts: list[Any] = [
        world.tables,
        Database(lambda: Mark("", "0/16B3748", 0x16B3780, datetime.now(UTC)), lambda: 0x16B3700),
        0.0,
    ]
    attempt = Attempt(*attempts)
    attempt.open()
    found = attempt.look()
    assert isinstance(found, GivenUp)
    assert found.why.startswith("The connector has not confirmed the position 0/16B3748")
