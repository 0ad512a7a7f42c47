"""A run is launched once, and found again by whoever comes back."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from orchestration import chain
from orchestration.status import status
from sources.errors import StateError
from spark_jobs.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.launch import last_launch
from tests.e2e.case import HISTORY, Case, history_of
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
WATCH = """
import sys
from pathlib import Path
from orchestration import chain
from sources.document import load_pipeline

loaded = load_pipeline(Path(sys.argv[1]))
print(chain.run_bounded(loaded, loaded.pipeline.sources[0]).rows)
"""


def test_a_run_outlives_its_watchers_and_is_found_again(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history(files=6)
    case.produce()

    def slowly(document: dict[str, Any]) -> None:
        document["sources"][0] |= {"batch": {"files": 1}, "rate": {"files": 1}}

    loaded = case.pipeline(slowly)
    chain.plan(loaded)
    generation = loaded.require_generation()
    command = [sys.executable, "-c", WATCH, str(loaded.path)]
    home = Path(__file__).parents[2]
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
    with pytest.raises(StateError, match="`history` before it has not finished"):
        chain.go_live(loaded, loaded.pipeline.sources[1])
    beats: list[Heartbeat] = []
    printed: list[str] = []
    end = chain.run_bounded(loaded, history_of(loaded), beats.append, printed.append)
    assert end.rows == 1000
    assert {beat.launch_id for beat in beats} == {launch.launch_id}
    assert last_launch(generation) == launch
    assert status(loaded).sources[0].state == "finished"
    assert not chain.stop(loaded)
    written = DeltaTable(str(tmp_path / "out")).to_pyarrow_table(columns=["id"])["id"]
    assert Counter(written.to_pylist()) == Counter(HISTORY)
