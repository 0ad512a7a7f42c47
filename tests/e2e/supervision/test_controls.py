"""A real stream is paused in the middle of a batch, resumed, drained, and loses nothing by it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from orchestration.supervision import controls
from orchestration.supervision.status import status
from sources.errors import RunError, SeamError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history, run_live
from tests.services.processes import wait_for
from tests.sources.hand_over_case import delete_below

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
SOON = timedelta(minutes=2)


def test_sigterm_in_a_long_batch_and_a_drain_leave_a_state_to_go_on_from_exactly(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(lambda document: document.update(transform="transforms:held"))
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    generation = loaded.require_generation()
    try:
        controls.resume(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        (tmp_path / "hold").touch()
        done = last_committed(generation.checkpoint)
        case.produce(range(1500, 1700))
        wait_for(lambda: last_planned(generation.checkpoint) != done, "a batch", 60)
        with pytest.raises(RunError, match="not drained after less than 1 s: 200 records are left"):
            controls.drain(loaded, timedelta(0))
        assert live_run.is_live(loaded), "time that is up ends nothing"

        # SIGTERM: the batch is left undone, and the driver has the last word.
        assert controls.pause(loaded, "new brokers")
        beat = read_heartbeat(generation, "live")
        assert beat is not None
        assert (beat.state, beat.failure) == ("stopped", None)
        assert last_committed(generation.checkpoint) == done
        assert DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id"]).num_rows == 1200
        found = status(loaded)
        assert found.live is not None
        assert (found.live.health, found.healthy) == ("paused", True)
        assert "(new brokers). 200 records wait. To resume it" in found.live.reason
        (tmp_path / "hold").unlink()

        controls.resume(loaded)
        case.produce(range(1700, 1900))
        left: list[int] = []
        controls.drain(loaded, SOON, left.append)
        assert left[-1] == 0
        assert not live_run.is_live(loaded)
        found = status(loaded)
        assert found.live is not None
        assert (found.live.health, found.sources[-1].lag) == ("stopped", 0)
        assert audit(loaded).expected == 1600
        assert wrong(audit(loaded)) == {}

    finally:
        stopping.stop(loaded)
    case.produce(range(1900, 2000))
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1700, {})


def test_a_stream_is_not_resumed_over_records_that_were_deleted_meanwhile(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(1000, 1100))
    loaded = case.pipeline()
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    # What was read may go; the rest may not.
    delete_below(case, 100)
    case.produce(range(1100, 1200))
    run_live(spark, loaded)
    case.produce(range(1200, 1300))
    delete_below(case, 230)
    told = (
        "partition 0 was read up to offset 200, and its log starts at 230: Kafka deleted 30 offsets"
    )
    with pytest.raises(SeamError, match=told):
        run_live(spark, loaded)
    assert DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id"]).num_rows == 1200
