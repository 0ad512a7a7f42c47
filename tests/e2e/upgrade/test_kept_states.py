"""States that earlier versions left are resumed by this one, and every table ends exact.

A failure means that whoever upgrades loses a pipeline: docs/versions.md says what to do.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.generations.switch import promotion
from orchestration.operations import live_run
from orchestration.supervision import controls
from orchestration.supervision.status import status
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.serving import read_serving
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import live_of
from tests.e2e.in_session import run_history, run_live
from tests.e2e.upgrade.resumed import NEW, Resumed, of
from tests.kept_states.pipelines import produce_changes, produce_events

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@of("live")
def test_a_live_run_whose_machine_is_gone_is_down_and_reads_on(state: Resumed) -> None:
    found = status(state.loaded)
    assert (found.refused, found.live.health if found.live else None) == (None, "dead")
    state.by_a_driver(lambda: live_run.resume(state.context, live_of(state.loaded)))
    state.require_exact()


@of("paused")
def test_a_paused_run_is_paused_until_it_is_resumed(state: Resumed) -> None:
    found = status(state.loaded)
    assert found.live is not None
    assert (found.live.health, found.live.numbers["lag"]) == ("paused", 18)
    state.by_a_driver(lambda: controls.resume(state.loaded))
    state.require_exact()


@of("mid_history")
def test_history_goes_on_with_the_micro_batch_that_was_killed(
    state: Resumed, spark: SparkSession
) -> None:
    checkpoint = state.context.generation.checkpoint
    assert (last_committed(checkpoint), last_planned(checkpoint)) == (1, 2)
    state.launch_here()
    run_history(spark, state.loaded)
    hand_over(state.context, live_of(state.loaded))
    produce_events(state.servers, state.name, NEW)
    run_live(spark, state.loaded)
    state.require_exact()


@of("half_promoted")
def test_a_promotion_that_was_killed_is_refused_by_what_finishes_it_and_is_finished(
    state: Resumed,
) -> None:
    with pytest.raises(StateError, match="g2 of `half_promoted` is replacing g1") as refused:
        controls.resume(state.loaded)
    assert "`hybrid generation finish P`" in str(refused.value)
    state.by_a_driver(lambda: promotion.finish(state.loaded))
    state.require_exact()
    assert read_serving(state.loaded).generation == "g2"


@of("windows")
def test_windows_that_history_opened_count_the_records_after_it(
    state: Resumed, spark: SparkSession
) -> None:
    generation = state.context.generation
    beat = read_heartbeat(generation, "live")
    assert beat is not None
    assert beat.filtering
    assert last_committed(generation.checkpoint) != last_planned(generation.checkpoint)
    produce_events(state.servers, state.name, NEW)
    state.launch_here()
    run_live(spark, state.loaded)
    state.require_exact()


@of("captured")
def test_changes_of_a_captured_table_are_merged_in_the_order_of_the_database(
    state: Resumed, spark: SparkSession
) -> None:
    # Keys that were deleted before, by a change from before that and by one from after it.
    changes = [(3, 48, "too late"), (25, 60, "again"), (5, 61, "new"), (6, 62, None), (40, 63, "x")]
    produce_changes(state.servers, state.name, changes)
    state.launch_here()
    run_live(spark, state.loaded)
    state.require_exact()
