"""The power fails during a promotion: whoever comes next finishes it, or begins it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hybrid_extensions.generations.switch import promotion
from sources.serving import pending_switch, read_serving
from sources.state.generation import read_generation
from spark_jobs.table.ownership.belonging import require_belonging
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.properties import examples
from tests.services.power import Disk, Kept, powered

TABLES = ("out", "out.g2")
SURVIVES: dict[str, Callable[[Disk], Kept]] = {
    "nothing but what was synced": Disk.synced,
    "some of the rest": Disk.cut,
}


class Cut(NamedTuple):
    """A power failure.

    Attributes:
        state: What the disk of the state folder holds.
        tables: Folder with copies of the tables at that time, which are on another disk.
    """

    state: Kept
    tables: Path


@pytest.mark.parametrize("survives", SURVIVES)
def test_a_promotion_is_completed_wherever_the_power_fails(tmp_path: Path, survives: str) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    case = two(folder)
    cuts: list[Cut] = []

    def fail(disk: Disk) -> None:
        tables = tmp_path / f"tables-{len(cuts)}"
        for name in TABLES:
            if (folder / name).exists():
                shutil.copytree(folder / name, tables / name)
        cuts.append(Cut(SURVIVES[survives](disk), tables))

    state = case.loaded.state.root.parent
    with powered(state, 7, fail):
        promotion.promote(case.loaded)
    assert case.seen() == NEW
    assert len(cuts) > 20
    seen = []
    for cut in cuts[:: max(1, len(cuts) // examples(60).max_examples)]:
        cut.state.restore(state)
        for name in TABLES:
            shutil.rmtree(folder / name, ignore_errors=True)
            if (cut.tables / name).exists():
                shutil.copytree(cut.tables / name, folder / name)
        seen.append(case.seen())
        if pending_switch(case.loaded) is not None:
            promotion.finish(case.loaded)
        elif read_serving(case.loaded).generation == "g1":
            promotion.promote(case.loaded)
        assert (case.seen(), read_serving(case.loaded).generation) == (NEW, "g2")
        require_belonging(case.loaded, read_generation(case.loaded.state, "g2"))
    assert {str(each) for each in seen} == {str(OLD), str(NEW)}
