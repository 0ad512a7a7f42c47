"""A live run that dies or freezes is red at the next look, and is brought back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.checks.table import HEALTHY
from orchestration.defs.keys import live_key
from orchestration.operations import live_run, stopping
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history
from tests.orchestration.supervision.live_case import sensor_of
from tests.services.processes import runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
DEADLINE_S = 120
CHECKS = ("alive", "lag", "waiting_time", "late_rows", HEALTHY)


class Look(NamedTuple):
    """What one tick of the sensor reports and asks for."""

    observed: dict[str, Any]
    checks: dict[str, bool]
    runs: list[dg.RunRequest]


class Dagster:
    """The sensor and the job of a pipeline, without the daemon between them."""

    def __init__(self, loaded: LoadedPipeline, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._key = live_key(loaded)
        self._sensor = sensor_of(loaded)
        self._job = pipeline_definitions(loaded).resolve_job_def("events")

    def look(self) -> Look:
        found = self._sensor(dg.build_sensor_context(instance=self._instance))
        assert isinstance(found, dg.SensorResult)
        observed: dict[str, Any] = {}
        checks: dict[str, bool] = {}
        for event in found.asset_events:
            if isinstance(event, dg.AssetCheckEvaluation):
                checks[event.check_name] = event.passed
            elif event.asset_key == self._key:
                observed = {name: value.value for name, value in event.metadata.items()}
            self._instance.report_runless_asset_event(event)
        return Look(observed, checks, list(found.run_requests or []))

    def wait_until_healthy(self) -> None:
        wait_for(
            lambda: self.look().observed["health"] == "healthy", "a stream that runs", DEADLINE_S
        )

    def wait_for_request(self) -> Look:
        looks: list[Look] = []

        def is_asked_for() -> bool:
            looks.append(self.look())
            return bool(looks[-1].runs)

        wait_for(is_asked_for, "a restart that is due", DEADLINE_S)
        return looks[-1]

    def materialize(self, request: dg.RunRequest) -> None:
        """Launch the live asset, and nothing else, as the daemon would."""
        assert request.asset_selection == [self._key]
        done = self._job.execute_in_process(
            instance=self._instance, asset_selection=[self._key], tags=request.tags
        )
        events = done.get_asset_materialization_events()
        assert [event.asset_key for event in events] == [self._key]


def driver(loaded: LoadedPipeline) -> Heartbeat:
    found = run_control.find_running(loaded.require_generation(), "live")
    assert found is not None
    return found


def test_a_stream_that_dies_or_freezes_is_red_and_comes_back_exactly(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    patient = {"restarts": {"backoff": "0 s"}}
    loaded = case.pipeline(lambda document: document.update(supervision=patient))
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    try:
        with dg.DagsterInstance.ephemeral() as instance:
            dagster = Dagster(loaded, instance)
            dagster.materialize(dg.RunRequest(asset_selection=[live_key(loaded)]))
            dagster.wait_until_healthy()
            wait_until_caught_up(PipelineContext.require(loaded))
            observed, checks, runs_asked = dagster.look()
            assert (observed["records waiting"], runs_asked) == (0, [])
            assert checks == dict.fromkeys(CHECKS, True)
            assert "commit_age_s" in observed["details"]

            first = driver(loaded)
            case.produce(range(1200, 1400))
            os.killpg(os.getpgid(first.pid), signal.SIGKILL)
            wait_for(
                lambda: not live_run.is_live(loaded), "the lock of the dead driver", DEADLINE_S
            )
            observed, checks, [request] = dagster.look()
            assert (observed["health"], checks["alive"]) == ("dead", False)
            assert not status(loaded).healthy
            assert dagster.look().runs == [], "the same restart is asked for once"
            dagster.materialize(request)
            dagster.wait_until_healthy()
            assert dagster.look().observed["details"]["restarts"] == 1

            second = driver(loaded)
            # It holds its lock, and its last word says that it runs.
            os.kill(second.pid, signal.SIGSTOP)
            case.produce(range(1400, 1500))
            # Thresholds hold from the next look on.
            quick = {**patient, "stuck_after": "2 s", "end_stuck_after": "0 s"}
            case.pipeline(lambda document: document.update(supervision=quick))
            observed, checks, [request] = dagster.wait_for_request()
            assert (observed["health"], checks["alive"]) == ("stuck", False)
            assert live_run.is_live(loaded)
            dagster.materialize(request)
            assert not runs(second.pid)
            case.pipeline(lambda document: document.update(supervision=patient))
            dagster.wait_until_healthy()
            wait_until_caught_up(PipelineContext.require(loaded))
            assert len({first.launch_id, second.launch_id, driver(loaded).launch_id}) == 3

            assert stopping.stop(loaded) == ["live"]
            observed, checks, runs_asked = dagster.look()
            assert (observed["health"], checks["alive"], runs_asked) == ("stopped", False, [])
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1500, {})
