"""What goes wrong is told by name, and nothing is lost by it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.operations import bounded_run, chain_plan, live_run, stopping
from orchestration.supervision import controls
from sources.errors import RunError, StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.offset_log import last_planned
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import Case, history_of, live_of, start_live, steps, windows, wrong
from tests.services.processes import runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
DEADLINE_S = 60


def test_a_transform_that_returns_no_dataframe_fails_the_asset_with_the_cause(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline(lambda document: document.update(transform="transforms:number"))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(pipeline_assets(loaded), instance=instance, raise_on_error=False)
        failures = {event.step_key: event for event in result.get_step_failure_events()}
    assert list(failures) == ["events__history"]
    error = failures["events__history"].step_failure_data.user_failure_data
    assert error is not None
    assert "returned no DataFrame of Spark" in (error.description or "")
    assert not (tmp_path / "out").exists()


def test_the_chain_runs_as_dagster_assets_and_the_stream_outlives_the_run(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline()
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(pipeline_assets(loaded), instance=instance)
            logged = [event.message for event in instance.all_logs(result.run_id)]
        assert steps(result) == ["plan", "history", "live_handover", "live"]
        assert any("4 of 4 splits, 1,000 of 1,000 rows" in message for message in logged)
        checks = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
        assert checks == dict.fromkeys(["no_gap", "no_duplicates", "retention", "schema"], True)
        assert live_run.is_live(loaded)
        case.produce(range(1200, 1300))
        wait_until_caught_up(PipelineContext.require(loaded))
        # Materializing again finds the run, and does not start a second one.
        beat = live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        again = live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        history = read_heartbeat(loaded.require_generation(), "history")
        assert history is not None
        assert history.launch_id == beat.launch_id == again.launch_id
        # What people have paused is not started by it either.
        assert controls.pause(loaded, "new brokers", "Ada")
        with dg.DagsterInstance.ephemeral() as instance:
            paused = dg.materialize(pipeline_assets(loaded), instance=instance)
        assert steps(paused) == ["plan", "history", "live_handover"]
        assert not live_run.is_live(loaded)
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1300, {})


def test_a_bad_record_stops_the_stream_with_topic_partition_and_offset(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    loaded = case.pipeline()
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(case.topic, b'{"id": "x"', partition=0, timestamp=1704200000000)
    assert producer.flush(30) == 0
    with pytest.raises(RunError, match=rf"Topic `{case.topic}`, partition 0, offset 600"):
        start_live(loaded)
    assert not live_run.is_live(loaded)


def test_planned_files_that_vanish_or_change_stop_the_run_before_it_reads(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    (tmp_path / "in" / "2.parquet").unlink()
    with pytest.raises(RunError, match=r"changed since it was planned:\n.*2\.parquet is missing"):
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))
    assert not (tmp_path / "out").exists()


def test_a_table_of_somebody_else_is_not_touched(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1]}))
    chain_plan.plan(loaded)
    with pytest.raises(StateError, match="was not made by this generation"):
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))


def test_a_run_is_refused_while_another_one_is_active(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    with (
        QueryLock(loaded.require_generation()),
        pytest.raises(StateError, match="Another run of pipeline `events` is active"),
    ):
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))


def test_a_live_run_can_not_start_before_history_is_done(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    with pytest.raises(StateError, match="`history`, which comes before it, has not finished"):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    with pytest.raises(StateError, match="`history`, which comes before it, has not finished"):
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))


def test_interrupting_a_bounded_run_ends_spark_and_the_next_run_goes_on(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()

    def small_batches(document: dict[str, Any]) -> None:
        document["sources"][0]["batch"] = {"files": 1}

    loaded = case.pipeline(small_batches)
    chain_plan.plan(loaded)
    seen: list[int] = []

    def interrupt(beat: Heartbeat) -> None:
        seen.append(beat.pid)
        if beat.batch_id is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bounded_run.run_bounded(
            PipelineContext.require(loaded), history_of(loaded), on_beat=interrupt
        )
    with pytest.raises(ProcessLookupError):
        os.kill(seen[-1], 0)
    assert bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded)).rows == 1000
    assert audit_rows(loaded) == 1000


@pytest.mark.crash
def test_a_bounded_run_whose_driver_freezes_is_ended_and_the_next_one_goes_on(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    # The third batch is held for as long as the file is there.
    case.write_history(range(1000, 2000))
    (tmp_path / "hold").touch()

    def edit(document: dict[str, Any]) -> None:
        del document["sources"][1:]
        document["sources"][0]["batch"] = {"files": 1}
        document["transform"] = "transforms:held"
        document["supervision"] = {"stuck_after": "20 s", "end_stuck_after": "1 s"}

    loaded = case.pipeline(edit)
    chain_plan.plan(loaded)
    checkpoint = loaded.require_generation().checkpoint
    frozen: list[int] = []

    def freeze(_: Heartbeat) -> None:
        launch = last_launch(loaded.require_generation())
        if not frozen and (last_planned(checkpoint) or 0) >= 2:
            assert launch is not None
            assert launch.group is not None
            os.killpg(launch.group, signal.SIGSTOP)
            frozen.append(launch.group)

    with pytest.raises(
        RunError, match=r"is frozen: its driver, .* has written no heartbeat for 2. s"
    ):
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded), on_beat=freeze)
    assert not runs(frozen[0])
    (tmp_path / "hold").unlink()
    assert bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded)).rows == 1000
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000, {})


def audit_rows(loaded: Any) -> int:
    return audit(loaded).found


@pytest.mark.crash
def test_a_killed_stream_is_seen_as_dead_and_resumed_exactly(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = case.pipeline(windows)
    try:
        start_live(loaded)
        generation = loaded.require_generation()
        beat = run_control.find_running(generation, "live")
        assert beat is not None
        case.produce(range(1500, 2000))
        os.killpg(os.getpgid(beat.pid), signal.SIGKILL)
        wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", DEADLINE_S)
        assert status_of_live(tmp_path) == "dead"
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert report.expected > 30
    assert wrong(report) == {}


def status_of_live(folder: Path) -> str:
    """As the command line says it, which must end with status 1."""
    done = subprocess.run(
        [str(Path(sys.prefix) / "bin" / "hybrid"), "status", str(folder / "events.yaml"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return str(json.loads(done.stdout)["sources"][-1]["state"])
