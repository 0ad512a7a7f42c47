"""Dagster's own daemon and code server: they bring a stream back, and it outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dagster import DagsterInstance

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.e2e.case import Case, start_live, wrong
from tests.services.processes import runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
ROOT = Path(__file__).parents[3]
DEADLINE_S = 240


@contextmanager
def daemon(home: Path, loaded: LoadedPipeline) -> Iterator[None]:
    """The daemon with its code server; both are killed at the end, without a warning."""
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "HYBRID_PIPELINES": str(loaded.path),
        "PYTHONPATH": str(ROOT),
    }
    command = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-w"]
    with (home / "daemon.log").open("ab") as log:
        started = subprocess.Popen(
            [*command, str(ROOT / "workspace.yaml")],
            cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield
        assert started.poll() is None, (home / "daemon.log").read_text()[-3000:]
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def driver(loaded: LoadedPipeline) -> Heartbeat | None:
    return run_control.find_running(loaded.require_generation(), "live")


def kill_and_await_another(loaded: LoadedPipeline) -> Heartbeat:
    """Kill the driver; returns the one that Dagster has started since."""
    first = driver(loaded)
    assert first is not None
    os.killpg(os.getpgid(first.pid), signal.SIGKILL)

    def is_back() -> bool:
        found = driver(loaded)
        return found is not None and found.launch_id != first.launch_id and found.state == "running"

    wait_for(is_back, "another driver", DEADLINE_S)
    found = driver(loaded)
    assert found is not None
    return found


def test_the_stream_outlives_dagster_and_is_brought_back_by_it(
    tmp_path: Path, servers: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    quick = {"restarts": {"backoff": "0 s"}}
    loaded = case.pipeline(lambda document: document.update(supervision=quick))
    try:
        start_live(loaded)
        with DagsterInstance.from_config(str(home)):
            # Makes Dagster's database before two processes try to.
            pass
        with daemon(home, loaded):
            second = kill_and_await_another(loaded)
        assert runs(second.pid)
        case.produce(range(1200, 1300))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1300, {})
