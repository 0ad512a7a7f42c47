"""Worlds that schedules begin with: nothing yet, a live table, a candidate, one promoted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hybrid_extensions.generations.switch import promotion
from orchestration.chain import ChainRun, run_chain
from orchestration.operations import stopping
from sources import generations
from sources.config.loader import LoadedPipeline
from tests.simulation.kernel import BEGIN_US, Host, Kernel, Process, S, running
from tests.simulation.store import Kept, Store
from tests.simulation.topic import Row, Topic
from tests.simulation.world import Weather, World, enter


@dataclass(frozen=True)
class Stage:
    """A world in which nothing runs.

    Attributes:
        now_us: Its time.
        documents: What the store holds.
        rows: What the topic holds.
    """

    now_us: int
    documents: dict[str, Kept]
    rows: list[Row]

    def world(self) -> World:
        """Return a world that begins like this."""
        store, topic = Store(1_000_000, self.documents), Topic()
        for row in self.rows:
            topic.append(row)
        return World(store, topic, Weather())


def make_stages(loaded: LoadedPipeline, rows: list[Row]) -> list[Stage]:
    """Return the worlds that a pipeline goes through if nothing goes wrong."""
    made = [Stage(BEGIN_US, {}, rows)]

    def run() -> None:
        run_chain(ChainRun(loaded, rest_requested=True))

    def stop() -> None:
        for each in generations.generations(loaded):
            stopping.stop(generations.acting_on(loaded, each.name))

    def begin() -> None:
        generations.begin(loaded)
        run()

    def promote() -> None:
        promotion.promote(loaded)

    for steps in ([run, stop], [run, begin, stop], [run, begin, promote, stop]):
        made.append(_after(rows, steps))
    return made


def _after(rows: list[Row], steps: list[Callable[[], None]]) -> Stage:
    """Return the world after some steps."""
    world, kernel = Stage(BEGIN_US, {}, rows).world(), Kernel(0)

    def work(_: Process) -> int:
        for step in steps:
            step()
        kernel.sleep(60 * S)
        return 0

    enter(world)
    try:
        with running(kernel):
            process = kernel.start("stages", Host("alpha"), work)
            kernel.run(lambda: process.status is not None, BEGIN_US + 3600 * S)
            return Stage(kernel.now_us, dict(world.store.documents), world.topic.rows)
    finally:
        enter(None)
