"""The driver of a follower is killed while the pipeline before it goes on: each row once."""

from __future__ import annotations

import random
import threading
from functools import partial
from pathlib import Path

import pytest

from orchestration import operations
from orchestration.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import kill_driver, start_live, wrong
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.crash]
KILLS = 4
SEED = 7


def has_read(loaded: LoadedPipeline, splits: int) -> bool:
    return splits_done(loaded) >= splits


def splits_done(loaded: LoadedPipeline) -> int:
    beat = read_heartbeat(loaded.require_generation(), loaded.pipeline.sources[-1].name)
    return 0 if beat is None or beat.splits_done is None else beat.splits_done


@pytest.mark.timeout(1800)
def test_a_follower_that_is_killed_has_each_row_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    case = TwoPipelines(tmp_path)
    case.write_history(range(500))
    first, ended = case.first(), threading.Event()
    written = [500]

    def go_on() -> None:
        while not ended.wait(0.3):
            case.arrive(range(written[0], written[0] + 20))
            written[0] += 20

    writer = threading.Thread(target=go_on)
    try:
        start_live(first)
        wait_until_caught_up(PipelineContext.require(first))
        second = case.second(windows=False)
        writer.start()
        start_live(second)
        for _ in range(KILLS):
            aim = splits_done(second) + chance.randint(1, 12)
            wait_for(partial(has_read, second, aim), "the follower to go on", 120)
            kill_driver(second)
            operations.go_live(PipelineContext.require(second), second.pipeline.sources[-1])
        ended.set()
        writer.join()
        wait_until_caught_up(PipelineContext.require(first))
        case.compact()
        wait_until_caught_up(PipelineContext.require(second))
        # What is not discovered yet is no backlog of before: look once more.
        wait_until_caught_up(PipelineContext.require(second))
    finally:
        ended.set()
        for each in ("first", "second"):
            if (tmp_path / f"{each}.yaml").exists():
                operations.stop(case.first() if each == "first" else case.second(windows=False))
    assert case.differences(second) == 0
    report = audit(second)
    assert (wrong(report), report.found) == ({}, written[0])
