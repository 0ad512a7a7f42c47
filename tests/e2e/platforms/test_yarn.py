"""The whole chain on YARN in cluster mode, with a driver killed with its application master."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import Case, start_live, windows, wrong
from tests.services.processes import wait_for
from tests.services.yarn_server import yarn_server

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.crash,
]


def parent_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (parent,) = (line.split()[1] for line in lines if line.startswith("PPid:"))
    return int(parent)


def health_of(loaded: LoadedPipeline) -> str | None:
    live = status(loaded).live
    return None if live is None else live.health


def test_a_driver_that_is_killed_on_yarn_costs_no_row_and_no_state(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))

    def on_yarn(document: dict[str, Any]) -> None:
        windows(document)
        document["spark"]["master"] = "yarn"
        document["spark"]["driver_memory"] = "1g"
        document["spark"]["conf"] |= {
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.pyspark.python": sys.executable,
            "spark.yarn.appMasterEnv.PYTHONPATH": str(Path(__file__).parents[3]),
            "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    loaded = case.pipeline(on_yarn)
    with yarn_server(tmp_path / "yarn") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        try:
            start_live(loaded)
            wait_until_caught_up(PipelineContext.require(loaded))
            beat = read_heartbeat(loaded.require_generation(), "live")
            assert beat is not None
            # The application master is the driver's JVM, which has started the driver's Python.
            master = parent_of(beat.pid)
            assert Path(f"/proc/{master}/comm").read_text().strip() == "java"
            os.kill(master, signal.SIGKILL)
            case.produce(range(1200, 1500))
            wait_for(lambda: health_of(loaded) == "dead", "the verdict", 120)
            start_live(loaded)
            wait_until_caught_up(PipelineContext.require(loaded))
            again = read_heartbeat(loaded.require_generation(), "live")
            assert again is not None
            assert again.launch_id != beat.launch_id
        finally:
            stopped = stopping.stop(loaded)
        assert stopped == ["live"]
        wait_for(lambda: status(loaded).sources[-1].state != "running", "the end of the run", 60)
    report = audit(loaded)
    assert (report.expected > 0, wrong(report)) == (True, {})
