"""Cancelling a Dagster run ends Spark, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.operations import chain_plan
from spark_jobs.launch.submission.submit import scratch_folders
from spark_jobs.run_state.driver_lock import is_held
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import Case
from tests.services.processes import wait_for

RUN = """
import sys
from pathlib import Path
import dagster as dg
from orchestration.defs.assets.chain_assets import pipeline_assets
from sources.config.loader import load_pipeline

if __name__ == "__main__":
    assets = pipeline_assets(load_pipeline(Path(sys.argv[1])))
    dg.materialize(assets, instance=dg.DagsterInstance.ephemeral())
"""


def group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
def test_cancelling_the_run_ends_spark(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(loaded.path)], cwd=Path(__file__).parents[3]
    )
    try:

        def running() -> Heartbeat | None:
            beat = read_heartbeat(generation, "history")
            return beat if beat is not None and beat.state == "running" else None

        wait_for(lambda: run.poll() is not None or running() is not None, "a driver", 120)
        assert run.poll() is None
        beat = running()
        assert beat is not None
        group = os.getpgid(beat.pid)
        run.send_signal(signal.SIGINT)
        assert run.wait(60) != 0
    finally:
        run.kill()
        run.wait()
    # Killed processes answer to signals until init has reaped them.
    wait_for(lambda: not group_is_there(group), "the end of Spark's processes", 60)
    assert not is_held(generation)
    assert scratch_folders(generation) == []
