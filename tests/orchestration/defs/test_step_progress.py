"""While history is read, the page of the run says how far it is, and links to Spark's UI."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.chain import BoundedStep, LiveStep, PlanStep, Step
from orchestration.defs.show.step_progress import StepProgress
from sources.common.positions import EndPosition
from sources.common.times import now_ms
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
        self.observer = StepProgress(context, self.case.loaded, lambda: self.now)

    def info(self, text: str) -> None:
        self.lines.append((self.now, text))

    def log_event(self, event: dg.AssetObservation) -> None:
        self.events.append(event)

    def read(self, second: float, done: int, step: Step[Any] = HISTORY, **changes: Any) -> None:
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
        self.observer.beat(step, Heartbeat.model_validate({**said, **changes}))


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
    shown.read(20, 1)
    shown.read(21, 50_000)
    assert shown.lines == [], "too early to say how fast it is"
    shown.read(24, 106_000)
    assert shown.lines == [(24, "`history`: 42%, 106 k of 252 k rows, about 1 min left.")]


@pytest.mark.parametrize("known", [{}, {"rows_done": None, "rows_total": None}])
def test_until_something_is_read_it_says_what_is_waited_for_and_for_how_long(
    shown: Shown, known: dict[str, Any]
) -> None:
    shown.observer.started(HISTORY)
    shown.lines.clear()
    for second in range(1, 40):
        shown.read(second, 0, state="starting" if second < 30 else "running", **known)
    shown.read(41, 800)
    assert shown.lines == [
        (4, "`history`: Spark is starting, usually 20 s; 4 s so far."),
        (19, "`history`: Spark is starting, usually 20 s; 19 s so far."),
        (34, "`history`: Spark works on the first batch; 34 s so far."),
    ]
    shown.read(49, 800)
    assert shown.lines[-1] == (49, "`history`: less than 1%, 800 of 252 k rows.")


def test_a_live_run_says_what_its_first_batch_waits_for(shown: Shown) -> None:
    live = LiveStep("inbox")
    shown.observer.started(live)
    shown.lines.clear()
    for second in range(1, 20):
        shown.read(second, 0, step=live, splits_done=7, splits_total=7)
    shown.read(40, 0, step=live, advanced_at_ms=1)
    assert shown.lines == [
        (4, "`inbox`: Spark works on the first batch; 4 s so far."),
        (19, "`inbox`: Spark works on the first batch; 19 s so far."),
    ]


def test_each_step_of_a_run_is_told_from_its_own_beginning(shown: Shown) -> None:
    shown.observer.started(HISTORY)
    shown.read(0, 1)
    shown.read(5, 251_000)
    shown.observer.started(HISTORY)
    shown.lines.clear()
    for second in range(5, 9):
        shown.read(second, 0)
    assert shown.lines == [(8, "`history`: Spark works on the first batch; 3 s so far.")]


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
