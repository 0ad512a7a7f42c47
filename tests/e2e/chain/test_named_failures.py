"""Failures of Dagster with Spark that people report by name; here none ends green or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.defs.show import dagster_failures
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.config.loader import load_pipeline
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.launch import runs as runs_of_sources
from spark_jobs.launch.launch_record import LAUNCH, last_launch
from spark_jobs.launch.run_control import find_running
from tests.e2e.case import Case, live_of, start_live, wrong
from tests.orchestration.supervision.live_case import LiveCase
from tests.services.processes import NEVER_ENDS, runs, wait_for

JOB = dg.AssetSelection.groups("events")


def chain_of(path: str) -> dg.JobDefinition:
    """The job of a pipeline, found again by name as a daemon does."""
    return dg.Definitions(
        assets=pipeline_assets(load_pipeline(Path(path))),
        jobs=[dg.define_asset_job("events", JOB)],
        executor=dg.in_process_executor,
    ).resolve_job_def("events")


def only_history(document: dict[str, Any]) -> None:
    del document["sources"][1:]
    document["sources"][0]["batch"] = {"files": 1}
    document["transform"] = "transforms:held"


def ended_with(result: dg.JobExecutionResult) -> tuple[list[str], list[str]]:
    """Steps that ended well, and what the others say."""
    good = [event.step_key for event in result.get_step_success_events()]
    told = [
        str(failure.description)
        for event in result.get_step_failure_events()
        if (failure := event.step_failure_data.user_failure_data) is not None
    ]
    return [key for key in good if key is not None], told


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.crash
def test_a_driver_killed_for_memory_is_no_success_and_a_retry_from_failure_goes_on(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Driver OOM shown as success; hangs for ever; FROM_FAILURE retry ignored."""
    # The retry is a person's here; Dagster's own are tested beside `failures`.
    monkeypatch.setattr(dagster_failures, "RETRY_POLICY", dg.RetryPolicy(max_retries=0))
    case = Case(tmp_path, servers)
    # The third batch is held for as long as the file is there.
    case.write_history(range(1000, 2000))
    (tmp_path / "hold").touch()
    loaded = case.pipeline(only_history)
    job = dg.build_reconstructable_job(__name__, "chain_of", (str(loaded.path),))

    def kill() -> None:
        wait_for(lambda: loaded.open_generation(create=False) is not None, "a plan", 60)
        generation = loaded.require_generation()
        wait_for(lambda: (last_planned(generation.checkpoint) or 0) >= 2, "the batch", 120)
        launch = last_launch(generation)
        assert launch is not None
        assert launch.group is not None
        # What the kernel does to the process that takes most memory: the JVM leads the group.
        os.kill(launch.group, signal.SIGKILL)

    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        killer = Thread(target=kill)
        killer.start()
        first = dg.execute_job(job, instance)
        killer.join()
        good, told = ended_with(first)
        assert (first.success, good) == (False, ["events__plan"])
        assert "The Spark run of `history` ended with status -9." in told[0]
        assert status(loaded).sources[0].state in ("failed", "dead")
        assert last_committed(loaded.require_generation().checkpoint) == 1

        (tmp_path / "hold").unlink()
        again = dg.ReexecutionOptions.from_failure(first.run_id, instance)
        second = dg.execute_job(job, instance, reexecution_options=again)
        assert (second.success, ended_with(second)) == (True, (["events__history"], []))
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000, {})


def test_zombie_runs_after_a_reboot_are_dead_and_nobody_else_is_signalled(tmp_path: Path) -> None:
    """Zombie runs after reboot: the state says running, and nothing is there."""
    case = LiveCase(tmp_path)
    case.ask_for_it()
    # After a reboot the pid of the driver may be anybody's.
    command = [sys.executable, "-c", NEVER_ENDS]
    with subprocess.Popen(command, start_new_session=True) as stranger:
        try:
            case.launch("before", pid=stranger.pid)
            launch = last_launch(case.generation)
            assert launch is not None
            case.generation.replace(
                "run/launch.json", launch.model_copy(update={"group": stranger.pid})
            )
            assert find_running(case.generation, "inbox") is None
            found = status(case.loaded)
            assert found.live is not None
            assert (found.live.health, found.healthy) == ("dead", False)
            assert stopping.stop(case.loaded) == []
            assert runs(stranger.pid)
        finally:
            stranger.kill()


@pytest.mark.spark
def test_a_driver_whose_launch_record_was_deleted_is_described_as_it_is(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_of_sources, "GRACE_S", 1.0)
    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 900))
    loaded = case.pipeline()
    try:
        start_live(loaded)
        generation = loaded.require_generation()
        beat = find_running(generation, "live")
        record = generation.document(LAUNCH)
        assert beat is not None
        assert record is not None
        generation.delete(LAUNCH)
        with pytest.raises(StateError, match=f"runs \\(in process {beat.pid} on ") as caught:
            live_run.resume(PipelineContext.require(loaded), live_of(loaded))
        assert f"{generation.location(LAUNCH)} does not name it" in str(caught.value)
        assert f"`kill {beat.pid}`" in caught.value.hint
        # The one way out, then the other.
        generation.replace_bytes(LAUNCH, record.data)
        live_run.resume(PipelineContext.require(loaded), live_of(loaded))
        assert find_running(generation, "live") is not None
        generation.delete(LAUNCH)
        os.kill(beat.pid, signal.SIGTERM)
        wait_for(lambda: not runs(beat.pid), "its end", 60)
        live_run.resume(PipelineContext.require(loaded), live_of(loaded))
        case.produce(range(900, 1000))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000, {})
