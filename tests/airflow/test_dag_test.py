"""The example's DAG with `airflow dags test`, without any server."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.planning.context import PipelineContext
from tests.airflow.flow import DAG, Flow
from tests.airflow.server import Airflow

pytestmark = [
    pytest.mark.airflow, pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka,
]  # fmt: skip


@pytest.mark.timeout(3600)
def test_a_run_without_servers_ends_with_an_exact_live_table(
    tmp_path: Path, servers: str, programs: Path, packages: Path
) -> None:
    flow = Flow(tmp_path, servers, programs, packages, watch_for="timedelta(seconds=5)")
    flow.add_dags()
    try:
        migrated = flow.airflow.run("db", "migrate")
        assert migrated.returncode == 0, migrated.stderr
        # Airflow runs the trigger of `watch` in the same process.
        done = flow.airflow.run("dags", "test", DAG)
        assert done.returncode == 0, done.stdout + done.stderr
        assert flow.driver("live") is not None
        wait_until_caught_up(PipelineContext.require(flow.loaded))
        report = flow.hybrid("audit")
    finally:
        stopping.stop(flow.loaded)
    assert (report["ok"], report["expected"]) == (True, 1200)


def test_airflow_lists_the_provider(programs: Path, packages: Path, tmp_path: Path) -> None:
    listed = Airflow(programs, tmp_path / "airflow", packages, {}).run("providers", "list")
    assert "hybrid-backfill-airflow" in listed.stdout, listed.stderr
