"""Where operators keep their state: in RocksDB, unless the checkpoint was begun otherwise.

History writes it as snapshots, and the live run as a changelog on top of them.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import bounded_run, chain_plan, live_run, stopping
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.state.generation import Generation
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.submission.spark_properties import STATE_STORE
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.e2e.case import Case, history_of, live_of, start_live, windows, wrong
from tests.e2e.in_session import run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROCESSOR = """
from pyspark.sql import Row, functions as F
from pyspark.sql.streaming import StatefulProcessor

class Count(StatefulProcessor):
    def init(self, handle):
        self._seen = handle.getValueState("seen", "n bigint")

    def handleInputRows(self, key, rows, timers):
        before = self._seen.get()[0] if self._seen.exists() else 0
        n = before + sum(1 for _ in rows)
        self._seen.update((n,))
        yield Row(k=key[0], n=n)

    def close(self):
        pass

def counted(rows):
    keyed = rows.withColumn("k", F.col("id") % 5).groupBy("k")
    return keyed.transformWithState(Count(), "k bigint, n bigint", "Update", "None")
"""
SUMS = """
from pyspark.sql import functions as F

def summed(rows):
    # A micro-batch has committed its state, and waits for as long as there is a file `hold`.
    def wait(batches):
        import time
        from pathlib import Path
        yield from batches
        while Path(__file__).with_name("hold").exists():
            time.sleep(0.05)
    keyed = rows.groupBy((F.col("id") % 50).alias("k"))
    sums = keyed.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return sums.mapInArrow(wait, sums.schema)
"""
SUMS_SQL = "SELECT id % 50 AS k, count(*) AS n, sum(v) AS total FROM input GROUP BY 1"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
DEADLINE_S = 240


def suffixes(folder: Path) -> set[str]:
    return {path.suffix for path in (folder / "state").rglob("*.*") if path.name[0].isdigit()}


def sums(case: Case, conf: dict[str, str] | None = None) -> LoadedPipeline:
    """A pipeline whose every micro-batch changes the state of all its 50 keys."""
    (case.folder / "sums.py").write_text(SUMS)
    (case.folder / "sums.sql").write_text(SUMS_SQL)

    def edit(document: dict[str, Any]) -> None:
        document["sources"][0]["batch"] = {"files": 1}
        document["transform"] = "sums:summed"
        document["sink"] = {"path": "out", "mode": "merge", "key": ["k"]}
        document["audit"] = {"sql": "sums.sql"}
        document["spark"]["conf"] |= conf or {}

    return case.pipeline(edit)


def test_history_leaves_snapshots_and_the_live_run_a_changelog_and_the_number_of_rows(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = sums(case)
    run_history(spark, loaded)
    root = loaded.require_generation().checkpoint.root
    assert suffixes(root) == {".sst", ".zip"}
    assert spark.conf.get(CHANGELOG) == "true"
    # Rows past the seam: a query that was built again and had nothing to read counts none.
    run_live(
        spark,
        hand_over_live(loaded),
        is_done=lambda beat: beat.state_rows == 50,
        meanwhile=lambda: case.produce(range(2000, 2100)),
    )
    assert ".changelog" in suffixes(root)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (50, {})


def test_a_changelog_that_a_pipeline_declares_is_written_from_the_start(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = sums(case, {CHANGELOG: "true"})
    run_history(spark, loaded)
    assert suffixes(loaded.require_generation().checkpoint.root) == {".changelog"}


@pytest.mark.crash
def test_killed_between_a_commit_of_state_and_its_batch_both_kinds_of_run_end_exact(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(files=8)
    case.produce(range(500, 1500))
    loaded = sums(case)
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    hold = tmp_path / "hold"

    def kill_after_state(batch: int, suffix: str) -> None:
        """Kill driver and JVM once the state of a micro-batch is there, and not its commit."""
        state = generation.checkpoint.root / "state" / "0" / "0" / f"{batch + 1}{suffix}"
        wait_for(state.exists, f"state of micro-batch {batch}", DEADLINE_S)
        assert last_committed(generation.checkpoint) == batch - 1
        launch = last_launch(generation)
        assert launch is not None
        assert launch.group is not None
        os.killpg(launch.group, signal.SIGKILL)

    held: list[int] = []

    def kill_history(beat: Heartbeat) -> None:
        if not held and beat.batch_id is not None:
            hold.touch()
            wait_for(lambda: is_waiting(generation), "a micro-batch that waits", DEADLINE_S)
            held.append(last_planned(generation.checkpoint) or 0)
            kill_after_state(held[0], ".zip")

    with pytest.raises(RunError):
        bounded_run.run_bounded(
            PipelineContext.require(loaded), history_of(loaded), on_beat=kill_history
        )
    assert 0 < held[0] < 8
    hold.unlink()
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        hold.touch()
        case.produce(range(1500, 2000))
        wait_for(lambda: is_waiting(generation), "a live micro-batch that waits", DEADLINE_S)
        kill_after_state(last_planned(generation.checkpoint) or 0, ".changelog")
        wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", DEADLINE_S)
        hold.unlink()
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (50, {})


def is_waiting(generation: Generation) -> bool:
    """Whether a micro-batch was begun and not committed."""
    return last_planned(generation.checkpoint) != last_committed(generation.checkpoint)


def hand_over_live(loaded: LoadedPipeline) -> LoadedPipeline:
    """Decide where the live source begins."""
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    return loaded


def test_state_that_was_begun_in_memory_goes_on_there(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline(windows)
    spark.conf.set(PROVIDER, IN_MEMORY)
    try:
        run_history(spark, loaded)
    finally:
        spark.conf.set(PROVIDER, STATE_STORE[PROVIDER])
    run_live(spark, hand_over_live(loaded))
    found = suffixes(loaded.require_generation().checkpoint.root)
    assert (".delta" in found, ".changelog" in found) == (True, False)
    report = audit(loaded)
    assert (report.expected > 30, wrong(report)) == (True, {})


def test_a_stateful_processor_in_python_crosses_the_switch(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "state_processor.py").write_text(PROCESSOR)
    (tmp_path / "count.sql").write_text("SELECT id % 5 AS k, count(*) AS n FROM input GROUP BY 1")
    case.write_history()
    case.produce()

    def by_processor(document: dict[str, Any]) -> None:
        windows(document)
        document["transform"] = "state_processor:counted"
        document["sink"] = {"path": "out", "mode": "merge", "key": ["k"]}
        document["audit"] = {"sql": "count.sql"}

    loaded = case.pipeline(by_processor)
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    assert ".changelog" in suffixes(loaded.require_generation().checkpoint.root)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (5, {})
