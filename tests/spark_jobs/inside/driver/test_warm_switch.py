"""Warm switch to the next source: what other processes know of it from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.supervision import controls, supervisor
from sources.common.times import now_ms
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.warm_switch import switch
from spark_jobs.launch.launch_record import LAUNCH, Launch
from spark_jobs.run_state.requested_state import read_requested
from tests.orchestration.supervision.live_case import LiveCase


@pytest.mark.parametrize("launch_id", ["a", "another"])
def test_a_stream_is_requested_by_the_driver_that_goes_on_with_it(
    tmp_path: Path, launch_id: str
) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    launch = Launch(
        launch_id="a",
        source="history",
        then=["inbox"],
        log="run/history.log",
        group=None,
        at_ms=now_ms(),
    )
    case.generation.replace(LAUNCH, launch)
    context = PipelineContext.require(case.loaded)
    is_its = launch_id == "a"
    assert switch(context, launch_id, "inbox") is is_its
    if not is_its:
        assert read_requested(case.generation) is None, "another launch is there by now"
        return
    # Nobody but the driver is left: the process that launched it was killed.
    looked = supervisor.tick(case.loaded)
    assert looked is not None, "it is supervised"
    assert controls.pause(case.loaded, "new brokers", "Ada") is False
    paused = read_requested(case.generation)
    assert paused is not None
    assert paused.is_paused
