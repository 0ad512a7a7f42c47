"""A snapshot that is read beside the changes, while its reader and the live run are killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from examples.shop import Customers
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline
from sources.config.source.snapshot import MANIFEST, SnapshotManifest
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import find_whole
from sources.storage.tables.delta import delta_table, is_delta_table, query_rows
from tests.e2e.case import kill_driver, wrong
from tests.e2e.changes.cdc_case import CdcCase, is_equal
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(3600))

ROWS, CHUNK_ROWS = 50_000, 5_000
PATIENCE_S = 900
# `hybrid run`, whose chunks wait for as many as the file `allowed` says.
RUN = """
import sys, time
from pathlib import Path
from orchestration.chain import ChainRun, Observer, run_chain
from sources.config.loader import load_pipeline

path = Path(sys.argv[1])

class Slow(Observer):
    def noted(self, step, text):
        print(step.name, text, flush=True)
        allowed = path.with_name("allowed")
        while ": chunk " in text and int(text.split()[2]) >= int(allowed.read_text()):
            time.sleep(0.05)

run_chain(ChainRun(load_pipeline(path), Slow(), rest_requested=True))
"""


class SlowRun:
    """A process that runs the chain, and reads as many chunks as it is allowed to."""

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded = loaded
        self._log = loaded.path.with_suffix(".log")
        self.start()

    def start(self) -> None:
        """Start it, as after a kill."""
        with self._log.open("a") as log:
            command = [sys.executable, "-c", RUN, str(self._loaded.path)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def allow(self, chunks: int) -> None:
        """Let it read up to so many chunks, and wait until it has."""
        self._loaded.path.with_name("allowed").write_text(str(chunks))
        wait_for(lambda: chunks_of(self._loaded) >= chunks, self.told, PATIENCE_S)

    def allow_all(self) -> None:
        """Let it read all other chunks."""
        self._loaded.path.with_name("allowed").write_text("1000")

    def kill(self) -> None:
        """End it at once, whatever it is at; one that has ended is left as it is."""
        self.process.kill()
        self.process.wait()

    def told(self) -> str:
        """What it has printed."""
        return self._log.read_text()[-3000:]


def chunks_of(loaded: LoadedPipeline) -> int:
    """How many chunks are written."""
    path = loaded.path.parent / "snapshot" / loaded.pipeline.name / MANIFEST
    return len(SnapshotManifest.parse(path.read_bytes()).done) if path.exists() else 0


def sees(loaded: LoadedPipeline, condition: str) -> bool:
    """Whether the target has a row that meets an SQL condition."""
    if not is_delta_table(loaded.target):
        return False
    query = f"SELECT 1 FROM target WHERE {condition} LIMIT 1"
    return bool(query_rows(delta_table(loaded.target), query).read_all().num_rows)


def slowly(document: dict[str, Any]) -> None:
    document["sources"][0]["snapshot"].update(
        follow="while_reading", workers=1, chunk_rows=CHUNK_ROWS
    )


def test_changes_are_seen_beside_a_snapshot_that_is_killed_and_the_table_ends_equal(
    case: CdcCase,
) -> None:
    case.execute(
        f"INSERT INTO orders SELECT nextval('ids'), 'c', 1, now(), NULL, NULL, NULL "
        f"FROM generate_series(1, {ROWS})",
        # In the first chunk. The customers change some of the lowest keys, by their rank, and
        # leave the last thousand of these alone.
        "INSERT INTO orders SELECT -n, 'c', 1, now() FROM generate_series(1, 4000) n",
        "ANALYZE orders",
    )
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline(edit=slowly)
    is_over = threading.Event()
    customers = Customers(case.dsn, 7, rows=20, enough=lambda _: is_over.is_set(), pause_s=0.5)
    loaded.path.with_name("allowed").write_text("1")
    run = SlowRun(loaded)
    customers.start()
    try:
        run.allow(2)
        follows_while_reading(case, loaded, run, -1, -2)
        run.allow(4)
        run.kill()
        run.start()
        run.allow(6)
        kill_driver(loaded)
        run.kill()
        run.start()
        run.allow(8)
        follows_while_reading(case, loaded, run, -3, -4)
        run.allow_all()
        assert run.process.wait(PATIENCE_S) == 0, run.told()
        is_over.set()
        customers.wait()
        wait_until_caught_up(PipelineContext.require(loaded), lambda *_: None)
        equal = is_equal(loaded)
        wait_for(lambda: equal(None), "the target to equal the table", PATIENCE_S)
        report = audit(loaded)
        assert (wrong(report), report.ok) == ({}, True)
    finally:
        is_over.set()
        customers.stop()
        run.kill()
        stopping.stop(loaded)


def follows_while_reading(
    case: CdcCase, loaded: LoadedPipeline, run: SlowRun, first: int, second: int
) -> None:
    """A change and a delete of rows of the first chunk are seen before the snapshot has ended."""
    mark = f"seen {first}"
    wait_for(lambda: sees(loaded, f"id = {first}"), run.told, PATIENCE_S)
    case.execute(
        f"UPDATE orders SET customer = '{mark}' WHERE id = {first}",
        f"DELETE FROM orders WHERE id = {second}",
    )
    wait_for(lambda: sees(loaded, f"customer = '{mark}'"), run.told, PATIENCE_S)
    wait_for(lambda: not sees(loaded, f"id = {second}"), run.told, PATIENCE_S)
    assert find_whole(loaded.require_generation(), "snapshot") is None
    case.execute(f"DELETE FROM orders WHERE id = {first}")
    wait_for(lambda: not sees(loaded, f"id = {first}"), run.told, PATIENCE_S)
