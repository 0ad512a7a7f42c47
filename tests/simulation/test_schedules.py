"""Random schedules: whatever goes wrong, no row is lost or doubled, and each refusal has a way out.

``HYBRID_SCHEDULES`` says how many, ``HYBRID_SEED`` which ones; ``make simulate`` runs many more.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from deltalake import CommitProperties, Transaction

from sources.storage.tables.delta_log import commit_name
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.delta_table import commit_files, open_table
from tests.names_page import ROOT
from tests.simulation import driver, run
from tests.simulation.product import Product
from tests.simulation.store import Store
from tests.simulation.table import Watcher
from tests.simulation.topic import Topic
from tests.simulation.world import Weather, World, enter

pytestmark = pytest.mark.slow
SCHEDULES = int(os.environ.get("HYBRID_SCHEDULES", "100"))
SEED = int(os.environ.get("HYBRID_SEED", "7"))
WAS_WRONG = {
    3000038: "a discard was suspended, and then removed what was being promoted",
    3100232: "a discard was killed, and a stop took a dead run of history for a living one",
    3200037: "what a killed discard had marked could not be promoted",
    3201588: "a generation was begun again that another process had begun and discarded",
    3206422: "a launch was waited for that had lost its lease before it was recorded",
    3401791: "a rollback was suspended, and went on after others had ended it",
    3229056: "a driver that had not begun its query was not kept out by a promotion",
    3402922: "a late request of a launch that had failed replaced the record of the one that ran",
    3000223: "two commits of the simulated store had one number",
    9002915: "a rollback was suspended after its commit, and recorded it after a later promotion",
    20282031: "a rollback was suspended before it was recorded, and began after another had ended",
    20328345: "a discard marked what was begun since its look, and a begin removed it by that mark",
    2254: "a driver was suspended before it had begun, and began after a later launch had ended",
}
"""Schedules that were wrong once, and why."""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with run.product() as made:
        yield made


def test_whatever_goes_wrong_each_row_is_there_once_and_all_comes_to_rest(
    product: Product,
) -> None:
    for seed in range(SEED, SEED + SCHEDULES):
        found = run.run(product, seed)
        assert not found.wrong, "\n".join([f"seed {seed}", *found.trace, found.wrong])


@pytest.mark.parametrize("seed", WAS_WRONG, ids=WAS_WRONG.get)
def test_a_schedule_that_was_wrong_once_is_right(product: Product, seed: int) -> None:
    found = run.run(product, seed)
    assert not found.wrong, "\n".join([*found.trace, found.wrong])


def test_a_seed_decides_all_that_happens(product: Product) -> None:
    first = [run.run(product, seed, is_traced=True) for seed in range(4)]
    assert len({each.digest for each in first}) == 4
    # By whatever process, in whatever folder.
    command = [sys.executable, "-m", "tests.simulation.run", "--seed", "0", "--schedules", "4"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    together = hashlib.sha256("".join(f"{each.seed} {each.digest}\n" for each in first).encode())
    assert f"digest {together.hexdigest()}\n" in done.stdout


def test_a_commit_to_a_table_that_was_deleted_meanwhile_is_seen_by_nobody() -> None:
    store = Store()
    world = World(store, Topic(), Weather())
    watcher = Watcher(world)
    store.on_write = watcher.written
    enter(world)
    try:
        store.put(f"t/{commit_name(5)}", b"{}", now_us=0)
        assert not watcher.rows("t")
    finally:
        enter(None)


def test_a_micro_batch_that_is_written_again_is_found(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(target: Any, generation: Any, batch: int, files: Any, _: Any = None) -> None:
        query = str(offset_log.query_id(generation.checkpoint))
        table = open_table(target)
        said = CommitProperties(app_transactions=[Transaction(query, batch)])
        commit_files(table, files(table), said)

    monkeypatch.setattr(driver, "append_once", append)
    found = (run.run(product, seed).wrong for seed in range(SEED, SEED + 200))
    assert any("has rows twice" in wrong for wrong in found)
