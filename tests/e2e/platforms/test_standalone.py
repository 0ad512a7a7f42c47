"""The whole chain on a cluster of Spark's own kind, with an executor killed in the middle."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import log_path
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import TRANSFORMS, Case, start_live, windows, wrong
from tests.services.processes import wait_for
from tests.services.standalone import Standalone

HELD_WINDOWS = """
import os
import time
from pathlib import Path

def wait(batches):
    # While there is a file `hold`, each task with a late row tells that it is there, and waits.
    here = Path(__file__).parent
    for batch in batches:
        late = any(n >= 1500 for n in batch.column("id").to_pylist())
        if late and (here / "hold").exists():
            (here / f"waits-{os.getpid()}").touch()
        while late and (here / "hold").exists():
            time.sleep(0.05)
        yield batch

def held_hourly(rows):
    return hourly(rows.mapInArrow(wait, rows.schema))
"""


def beat_of(loaded: LoadedPipeline) -> Heartbeat:
    beat = read_heartbeat(loaded.require_generation(), "live")
    assert beat is not None
    return beat


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.crash
def test_an_executor_that_is_killed_costs_no_row_and_no_state(
    tmp_path: Path, servers: str, cluster: Standalone
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    # Executors import the transform's module: a function of it is sent to them by name.
    (tmp_path / "transforms.py").write_text(TRANSFORMS + HELD_WINDOWS)
    case.write_history(files=2)
    case.produce(range(500, 1200))

    def on_the_cluster(document: dict[str, Any]) -> None:
        windows(document)
        document["transform"] = "transforms:held_hourly"
        document["spark"]["master"] = cluster.url
        document["spark"]["conf"] |= {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            # What compiles costs more here than what runs, on each executor anew.
            "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }

    loaded = case.pipeline(on_the_cluster)
    try:
        start_live(loaded)
        wait_for(lambda: not beat_of(loaded).filtering, "the end of the seam", 120)
        both = cluster.executors()
        assert len(both) == 2
        # Each executor has a partition of this batch, and hangs in it.
        (tmp_path / "hold").touch()
        case.produce(range(1500, 1600))
        wait_for(lambda: len(list(tmp_path.glob("waits-*"))) == 2, "a batch", 120)
        os.kill(min(both), signal.SIGKILL)
        wait_for(lambda: len(cluster.executors() - both) == 1, "another executor", 120)
        (tmp_path / "hold").unlink()
        wait_until_caught_up(PipelineContext.require(loaded))
        case.produce(range(1600, 1700))
        wait_until_caught_up(PipelineContext.require(loaded))
        assert status(loaded).sources[-1].state == "running"
    finally:
        stopped = stopping.stop(loaded)
    assert stopped == ["live"]
    # It had a task, which was done again.
    said = log_path(loaded.require_generation(), "live").read_text()
    assert "ExecutorLostFailure" in said
    wait_for(lambda: not cluster.executors(), "the end of the executors", 60)
    report = audit(loaded)
    assert (report.expected > 0, wrong(report)) == (True, {})
