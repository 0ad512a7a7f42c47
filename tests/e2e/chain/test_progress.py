"""What a live run tells of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sources.common.times import to_ms
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.progress_log import read_progress_log
from tests.e2e.case import Case, live_of, moment
from tests.e2e.in_session import DEADLINE_S, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_one_batch_after_an_idle_time_is_told(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    """Spark reports an idle trigger under the number of the batch that comes next."""
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline()
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def idle_past_the_seam() -> bool:
        beat = read_heartbeat(loaded.require_generation(), "live")
        return beat is not None and beat.idle and not beat.filtering

    def one_batch_more() -> None:
        wait_for(idle_past_the_seam, "the stream to be idle without its seam filter", DEADLINE_S)
        case.produce(range(1200, 1300))

    beat = run_live(spark, loaded, meanwhile=one_batch_more)
    assert beat.offsets is not None
    assert sum(beat.offsets.values()) == 800


def test_a_stream_that_is_started_again_with_nothing_to_read_is_idle_at_once(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    """Nearly all the time Spark says of it what it says of one that waits for its next trigger."""
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(lambda document: document["sources"][1].update(trigger_interval="3 s"))
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    beat = run_live(spark, loaded, lambda beat: beat.idle)
    assert (beat.batches, beat.idle) == (0, True)


def test_a_micro_batch_that_takes_long_is_seen_to_work(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=4)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline(lambda document: document.update(transform="transforms:held"))
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    hold = tmp_path / "hold"

    def one_task_waits() -> None:
        before = read_heartbeat(loaded.require_generation(), "live")
        assert before is not None
        hold.touch()
        case.produce([*range(1200, 1300), 1500])

        def works() -> bool:
            beat = read_heartbeat(loaded.require_generation(), "live")
            assert beat is not None
            assert beat.batch_id == before.batch_id
            return (beat.worked_at_ms or 0) > (before.worked_at_ms or 0) and not beat.idle

        wait_for(works, "a task to end", DEADLINE_S)
        hold.unlink()

    run_live(spark, loaded, meanwhile=one_task_waits)


def test_what_runs_have_told_is_kept_over_the_seam_and_restarts(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))
    loaded = case.pipeline()
    run_history(spark, loaded)
    generation = loaded.require_generation()
    history = read_progress_log(generation, "history")
    assert history is not None
    assert history.unit == "rows"
    assert [(each.done, each.left) for each in (history.samples[0], history.samples[-1])] == [
        (0, 1000),
        (1000, 0),
    ]
    assert history.samples[-1].event_time_ms == to_ms(moment(999))
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    first = read_progress_log(generation, "live")
    assert first is not None
    case.produce(range(1200, 1300))
    run_live(spark, loaded)
    live = read_progress_log(generation, "live")
    assert live is not None
    # What the first launch told is still there.
    assert live.samples[: len(first.samples)] == first.samples
    assert (live.unit, live.samples[-1].done, live.samples[-1].left) == ("records", 800, 0)
    # It starts at 899, the first record that history may not hold, and says so before it reads.
    assert (first.samples[0].done, first.samples[-1].done) == (399, 700)
