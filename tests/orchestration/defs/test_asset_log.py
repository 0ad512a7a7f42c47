"""While history is read, the page of the run says how far it is, and links to Spark's UI."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.chain import BoundedStep, LiveStep, PlanStep
from orchestration.defs.show.asset_log import AssetLog
from sources.common.positions import EndPosition, now_ms
from sources.hybrid import SwitchState
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from tests.orchestration.supervision.live_case import LiveCase

HISTORY = BoundedStep("history")


class Shown:
    """A Dagster run's page: what a step logs, and when."""

    def __init__(self, folder: Path) -> None:
        self.case = LiveCase(folder)
        self.lines: list[tuple[float, str]] = []
        self.events: list[dg.AssetObservation] = []
        self.log = self
        self.now = 0.0
        context: Any = self
        self.observer = AssetLog(context, self.case.loaded, lambda: self.now)

    def info(self, text: str) -> None:
        self.lines.append((self.now, text))

    def log_event(self, event: dg.AssetObservation) -> None:
        self.events.append(event)

    def read(self, second: float, done: int, **changes: Any) -> None:
        """A heartbeat at a second, with rows of 252,000 read."""
        self.now = second
        said = {
            "launch_id": "a",
            "pid": 1,
            "host": "h",
            "source": "history",
            "phase": "bounded",
            "state": "running",
            "at_ms": now_ms(),
            "rows_done": done,
            "rows_total": 252_000,
        }
        self.observer.beat(HISTORY, Heartbeat.model_validate({**said, **changes}))


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def test_from_the_first_second_on_it_says_that_spark_starts(shown: Shown) -> None:
    shown.observer.started(PlanStep())
    assert shown.lines == []
    shown.observer.started(HISTORY)
    shown.observer.started(LiveStep("inbox"))
    assert shown.lines == [
        (0.0, "`history`: Spark is starting, usually 20 s."),
        (0.0, "`inbox`: Spark is starting, usually 20 s."),
    ]


def test_a_source_that_was_read_or_is_being_read_starts_no_spark(shown: Shown) -> None:
    position = EndPosition(
        source="history",
        event_time_ms=1,
        complete_through_ms=1,
        event_times="exact",
        splits=1,
        rows=1,
    )
    SwitchState(shown.case.loaded.pipeline.hybrid_source(), shown.case.generation).finish(position)
    shown.observer.started(HISTORY)
    shown.case.launch("a")
    with shown.case.alive():
        shown.observer.started(LiveStep("inbox"))
    assert shown.lines == [(0.0, "`inbox`: Spark is up; its first batch follows.")]


def test_progress_is_told_after_a_few_seconds_with_share_rows_and_time_left(shown: Shown) -> None:
    log, at_ms = ProgressLog(unit="rows"), now_ms()
    for second, done in ((-60, 0), (0, 106_000)):
        sample = Sample(launch_id="a", at_ms=at_ms + second * 1000, done=done, left=252_000 - done)
        log = log.with_sample(sample)
    shown.case.generation.replace(progress_log_name("history"), log)
    shown.read(20, 0)
    shown.read(21, 50_000)
    assert shown.lines == [], "too early to say how fast it is"
    shown.read(24, 106_000)
    assert shown.lines == [(24, "`history`: 42%, 106 k of 252 k rows, about 1 min left.")]


def test_before_the_first_batch_there_is_no_progress_to_tell(shown: Shown) -> None:
    for second in range(60):
        shown.read(second, 0, rows_done=None, rows_total=None)
    assert shown.lines == []


def test_a_quick_run_has_a_line_for_each_tenth_and_a_slow_one_few(shown: Shown) -> None:
    for second in range(51):
        shown.read(second, second * 5_040)
    seconds = [second for second, _ in shown.lines]
    assert seconds == [3, 6, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    shown.lines.clear()
    slow = Shown(shown.case.path.parent)
    for second in (*range(0, 60, 5), *range(60, 36_000, 60)):
        slow.read(second, 1 + second // 1_000)
    told = [second for second, _ in slow.lines]
    assert told[:3] == [5, 20, 35], "every 15 s at first"
    assert len(told) < 150, "ten hours must not fill Dagster's event log"
    assert max(later - before for before, later in pairwise(told)) <= 1_800


def test_spark_s_ui_is_linked_once_with_the_log(shown: Shown) -> None:
    shown.read(1, 0)
    assert shown.events == []
    for second in (2, 3):
        shown.read(second, 0, ui_url="http://localhost:4040")
    [event] = shown.events
    assert event.asset_key == dg.AssetKey(["events", "history"])
    assert event.metadata["Spark UI"] == dg.MetadataValue.url("http://localhost:4040")
    log = event.metadata["log"].value
    assert isinstance(log, str)
    assert log.startswith(str(shown.case.path.parent))
