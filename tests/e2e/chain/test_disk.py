"""A state folder that can't be written is told by name, and nothing is lost by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from orchestration.supervision import controls
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.run_state.driver_lock import take_launch_lock
from tests.command_line import invoke
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of
from tests.services.processes import wait_for
from tests.services.small_disk import small_disk


def alive(loaded: LoadedPipeline) -> tuple[bool, str]:
    """The check as Dagster's sensor reports it."""
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    [check] = [
        event
        for event in found.asset_events
        if isinstance(event, dg.AssetCheckEvaluation) and event.check_name == "alive"
    ]
    return check.passed, check.description or ""


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.crash
def test_a_disk_that_fills_up_under_a_stream_is_red_and_the_next_run_ends_exact(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    with small_disk(tmp_path / "state", "32m") as disk:
        case = Case(tmp_path, servers)
        case.write_history()
        case.produce(range(500, 1200))
        loaded = case.pipeline()
        live = live_of(loaded)
        run_history(spark, loaded)
        hand_over(PipelineContext.require(loaded), live)
        try:
            live_run.go_live(PipelineContext.require(loaded), live)
            wait_until_caught_up(PipelineContext.require(loaded))
            disk.fill()
            case.produce(range(1200, 1400))
            wait_for(lambda: not live_run.is_live(loaded), "the end of the run", 90)
            told = f"The disk of the state folder {loaded.require_generation().root} is full"
            found = status(loaded)
            assert found.live is not None
            assert (found.live.health, found.healthy) == ("dead", False)
            assert told in found.live.reason
            passed, text = alive(loaded)
            assert not passed
            assert "can't be written: [Errno 28] No space left on device" in text
            with pytest.raises(StateError, match=r"No space left on device\. Free space"):
                controls.resume(loaded)
            disk.free()
            controls.resume(loaded)
            case.produce(range(1400, 1500))
            wait_until_caught_up(PipelineContext.require(loaded))
        finally:
            stopping.stop(loaded)
        report = audit(loaded)
        assert (report.expected, wrong(report)) == (1500, {})


def call(case: LiveCase, command: str) -> tuple[int, dict[str, Any]]:
    result = invoke([command, str(case.path), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_state_folder_that_is_read_only_is_told_before_anything_is_started(
    tmp_path: Path,
) -> None:
    for folder in ("in", "inbox"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z"}\n')
    with small_disk(tmp_path / "state", "4m") as disk:
        case = LiveCase(tmp_path)
        case.ask_for_it()
        case.launch("a", state="failed", failure=DISK_FULL)
        lock = take_launch_lock(case.generation, "me")
        assert lock is not None
        lock.release()
        disk.remount("ro")
        for command in ("plan", "run", "stop", "pause"):
            status, answer = call(case, command)
            assert status == 2, command
            assert "can't be written: " in answer["message"]
            assert "ead-only" in answer["message"]
        with pytest.raises(StateError, match=r"launch\.lock can't be taken: Read-only"):
            take_launch_lock(case.generation, "me")
        told = case.generation.obstacle()
        assert told is not None
        assert told.endswith("is read-only")
        # To look is still possible.
        assert call(case, "status")[1]["live"]["health"] == "dead"
        disk.remount("rw")
        assert call(case, "plan")[0] == 0
