"""The example's DAG under Airflow's real scheduler: workers are killed, tasks are cleared."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.planning.context import PipelineContext
from tests.airflow.flow import DAG, STEPS, Flow
from tests.airflow.server import PATIENCE_S
from tests.services.processes import runs, wait_for

pytestmark = [
    pytest.mark.airflow, pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka,
    pytest.mark.crash, pytest.mark.timeout(3600),
]  # fmt: skip


@pytest.fixture
def flow(tmp_path: Path, servers: str, programs: Path, packages: Path) -> Iterator[Flow]:
    made = Flow(tmp_path, servers, programs, packages, watch_for="timedelta(hours=1)")
    made.hold.touch()
    try:
        with made.airflow.serving():
            made.add_dags()
            yield made
    finally:
        made.hold.unlink(missing_ok=True)
        stopping.stop(made.loaded)


def audited(flow: Flow) -> tuple[bool, int]:
    """Whether the audit of all input finds nothing wrong, and how many rows it expects."""
    wait_until_caught_up(PipelineContext.require(flow.loaded))
    report = flow.hybrid("audit")
    return report["ok"], report["expected"]


def test_killed_workers_and_cleared_tasks_leave_the_table_exact(flow: Flow) -> None:
    airflow = flow.airflow
    first = flow.wait_until_held()
    run = airflow.latest(DAG)
    assert run is not None

    # The task's processes alone: the next attempt finds the Spark run and waits for it.
    command, task, _ = flow.task_processes("history")
    os.kill(task, signal.SIGKILL)
    os.kill(command, signal.SIGKILL)
    wait_for(lambda: airflow.attempts(DAG, run)["history"] >= 2, "another attempt", PATIENCE_S)
    airflow.wait_for(DAG, "history", "running")
    assert runs(first.pid)

    # The worker with all that it runs, and the Spark driver.
    wait_for(lambda: bool(flow.commands("history")), "its command", PATIENCE_S)
    for pid in reversed(flow.task_processes("history")):
        os.kill(pid, signal.SIGKILL)
    os.killpg(os.getpgid(first.pid), signal.SIGKILL)
    flow.hold.unlink()
    airflow.wait_for(DAG, "watch", "deferred")
    assert airflow.attempts(DAG, run)["history"] >= 3
    assert audited(flow) == (True, 1200)
    airflow.wait_for("downstream", "use", "success")

    # Everything again, while the stream runs.
    live = flow.driver("live")
    assert live is not None
    airflow.clear(DAG, run, STEPS)
    flow.case.produce(range(1200, 1300))
    wait_for(lambda: airflow.attempts(DAG, run)["live"] >= 2, "the live step again", PATIENCE_S)
    airflow.wait_for(DAG, "live", "success")
    again = flow.driver("live")
    assert again is not None
    assert again.pid == live.pid
    assert audited(flow) == (True, 1300)


def test_a_cancelled_step_ends_its_spark_run_and_a_cleared_one_continues_it(flow: Flow) -> None:
    airflow = flow.airflow
    driver = flow.wait_until_held()
    run = airflow.latest(DAG)
    assert run is not None
    # The schedule would begin a run of its own before the task is cleared.
    airflow.pause(DAG)
    airflow.mark(DAG, run, "history", "failed")
    wait_for(lambda: not runs(driver.pid), "the end of the Spark run", PATIENCE_S)

    flow.hold.unlink()
    airflow.clear(DAG, run, STEPS)
    airflow.pause(DAG, is_paused=False)
    airflow.wait_for(DAG, "watch", "deferred", run)
    assert audited(flow) == (True, 1200)

    # Nobody starts what people have paused.
    flow.hybrid("pause")
    before = flow.looks()
    wait_for(lambda: flow.looks() >= before + 3, "looks at the paused run", PATIENCE_S)
    assert flow.driver("live") is None
    assert airflow.states(DAG, run)["watch"] == "deferred"

    # The next run of the DAG starts a live run that died.
    flow.hybrid("resume")
    live = flow.driver("live")
    assert live is not None
    os.killpg(os.getpgid(live.pid), signal.SIGKILL)
    flow.case.produce(range(1200, 1300))
    airflow.wait_for(DAG, "watch", "failed", run)
    wait_for(lambda: airflow.latest(DAG) != run, "the next run", PATIENCE_S)
    airflow.wait_for(DAG, "watch", "deferred")
    assert audited(flow) == (True, 1300)
