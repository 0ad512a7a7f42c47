"""A run is launched once, and found again by whoever comes back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import bounded_run, chain_plan, live_run, stopping
from orchestration.supervision.status import status
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.offset_log import last_planned
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import HISTORY, Case, history_of, live_of, start_live, wrong
from tests.services.processes import runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
WATCH = """
import sys
from pathlib import Path
from orchestration.operations import bounded_run
from sources.config.loader import load_pipeline
from sources.planning.context import PipelineContext

loaded = load_pipeline(Path(sys.argv[1]))
print(bounded_run.run_bounded(PipelineContext.require(loaded), loaded.pipeline.sources[0]).rows)
"""


def test_a_run_outlives_its_watchers_and_is_found_again(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history(files=6)
    case.produce()

    def slowly(document: dict[str, Any]) -> None:
        document["sources"][0] |= {"batch": {"files": 1}, "rate": {"files": 1}}

    loaded = case.pipeline(slowly)
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    command = [sys.executable, "-c", WATCH, str(loaded.path)]
    home = Path(__file__).parents[3]
    watchers = [subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        wait_for(lambda: status(loaded).sources[0].state == "starting", "a launch", 60)
        wait_for(lambda: read_heartbeat(generation, "history") is not None, "a driver", 90)
    finally:
        for watcher in watchers:
            assert watcher.poll() is None
            watcher.kill()
            watcher.communicate()
    launch = last_launch(generation)
    assert launch is not None
    assert status(loaded).sources[0].state in ("starting", "running")
    with pytest.raises(StateError, match="`history`, which comes before it, has not finished"):
        live_run.go_live(PipelineContext.require(loaded), loaded.pipeline.sources[1])
    beats: list[Heartbeat] = []
    printed: list[str] = []
    end = bounded_run.run_bounded(
        PipelineContext.require(loaded), history_of(loaded), beats.append, printed.append
    )
    assert end.rows == 1000
    assert {beat.launch_id for beat in beats} == {launch.launch_id}
    assert last_launch(generation) == launch
    assert status(loaded).sources[0].state == "finished"
    assert not stopping.stop(loaded)
    written = DeltaTable(str(tmp_path / "out")).to_pyarrow_table(columns=["id"])["id"]
    assert Counter(written.to_pylist()) == Counter(HISTORY)


@pytest.mark.crash
def test_a_driver_that_wakes_after_it_was_replaced_adds_no_row(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(lambda document: document.update(transform="transforms:held"))
    live = live_of(loaded)
    (tmp_path / "hold").touch()
    groups: list[int] = []
    try:
        start_live(loaded)
        generation = loaded.require_generation()
        first = last_launch(generation)
        assert first is not None
        assert first.group is not None
        groups.append(first.group)
        # Asleep in the middle of a batch.
        wait_until_caught_up(PipelineContext.require(loaded))
        begun = last_planned(generation.checkpoint)
        case.produce(range(1500, 1600))
        wait_for(lambda: last_planned(generation.checkpoint) != begun, "a batch", 60)
        os.killpg(first.group, signal.SIGSTOP)
        # As on a machine that does not see the lock of the one that sleeps.
        for lock in ("query.lock", "launch.lock"):
            generation.path(f"run/{lock}").unlink()
        (tmp_path / "hold").unlink()
        live_run.go_live(PipelineContext.require(loaded), live)
        case.produce(range(1600, 1700))
        wait_until_caught_up(PipelineContext.require(loaded))
        second = last_launch(generation)
        assert second is not None
        assert second.launch_id != first.launch_id
        os.killpg(first.group, signal.SIGCONT)
        wait_for(lambda: not runs(groups[0]), "the first driver to give up", 120)
        case.produce(range(1700, 1800))
        wait_until_caught_up(PipelineContext.require(loaded))
        assert status(loaded).sources[-1].state == "running"
        beat = read_heartbeat(generation, live.name)
        assert beat is not None
        assert beat.launch_id == second.launch_id
    finally:
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1500, {})
