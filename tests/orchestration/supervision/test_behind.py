"""A live run that works and is far behind, or drops rows, is not healthy, wherever it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.generations.switch.promotion import promote
from orchestration.supervision.status import status
from orchestration.supervision.supervisor import tick
from sources.common.positions import EndPosition
from sources.common.times import now_ms
from sources.errors import StateError
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.planning.plan import Plan
from spark_jobs.run_state.late_row_count import LateRows, Period, late_rows_name
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from tests.command_line import invoke
from tests.orchestration.supervision.live_case import LiveCase

HOUR_MS = 3_600_000


def behind(case: LiveCase, before: int) -> None:
    """A run with 6 splits to read, of which so many waited an hour before."""
    now = now_ms()
    case.launch("a", splits_done=3, splits_total=9, idle=False)
    samples = [
        Sample(launch_id="a", at_ms=now - HOUR_MS, done=0, left=before),
        Sample(launch_id="a", at_ms=now, done=3, left=6),
    ]
    log = ProgressLog(unit="splits", samples=samples)
    case.generation.replace(progress_log_name("inbox"), log)


@pytest.mark.parametrize(("left", "health"), [(9, "catching-up"), (6, "late")])
def test_a_run_that_is_hours_behind_is_not_healthy(tmp_path: Path, left: int, health: str) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    behind(case, left)
    with case.alive():
        found = tick(case.loaded)
        assert found is not None
        assert (found.verdict.health, found.restart) == (health, None)
        assert found.verdict.numbers["waiting_s"] >= 3600
        # Red only where it does not become less.
        assert status(case.loaded).healthy == (health == "catching-up")
        shown = invoke(["status", str(case.path)])
        assert shown.exit_code == (0 if health == "catching-up" else 1)
        assert f"{health}: " in " ".join(shown.stdout.split())


def test_a_generation_that_is_still_catching_up_is_not_promoted(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    keep_definition(case.loaded, case.generation)
    (case.generation.checkpoint.root / "offsets").mkdir(parents=True, exist_ok=True)
    (case.generation.checkpoint.root / "offsets" / "0").write_text("v1\n{}\n-")
    case.generation = begin(case.loaded)
    end = EndPosition(
        source="history",
        event_time_ms=0,
        complete_through_ms=0,
        event_times="exact",
        splits=1,
        rows=1,
    )
    case.generation.put_if_absent("positions/history-end.json", end)
    plan = Plan(pipeline="events", created_ms=0, files=[], archives=[], topic=None, warnings=[])
    case.generation.put_if_absent("plan.json", plan)
    case.ask_for_it()
    behind(case, 9)
    told = r"its live run is catching-up \(The live run is catching up: 6 splits wait"
    with case.alive(), pytest.raises(StateError, match=told):
        promote(case.loaded)


def test_rows_dropped_in_the_last_hour_make_the_run_red_until_they_are_long_ago(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    for ago_ms, health in ((60_000, "dropping-rows"), (2 * HOUR_MS, "healthy")):
        period = Period(begin_ms=now_ms() - ago_ms, read=100, dropped=2)
        count = LateRows(source="inbox", last_batch=5, dropped=2, periods=[period])
        case.generation.replace(late_rows_name("inbox"), count)
        with case.alive():
            found = tick(case.loaded)
        assert found is not None
        assert found.verdict.health == health
        assert found.verdict.numbers["late_rows"] == 2
