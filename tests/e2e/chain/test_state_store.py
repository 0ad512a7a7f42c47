"""Where operators keep their state: in RocksDB, unless the checkpoint was begun otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orchestration import operations
from orchestration.audit.run import audit
from orchestration.backlog import wait_until_caught_up
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.launch.submit import STATE_STORE
from tests.e2e.case import Case, live_of, start_live, windows, wrong
from tests.e2e.in_session import run_history, run_live

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


def suffixes(folder: Path) -> set[str]:
    return {path.suffix for path in (folder / "state").rglob("*.*") if path.name[0].isdigit()}


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
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
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
        operations.stop(loaded)
    assert ".changelog" in suffixes(loaded.require_generation().checkpoint.root)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (5, {})
