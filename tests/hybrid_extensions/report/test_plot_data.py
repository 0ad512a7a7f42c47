"""The view over both phases: pictures from what the state and the target hold."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import deltalake
import pyarrow as pa
import pytest

from hybrid_extensions.report import plot_data as progress
from hybrid_extensions.report.progress_asset import progress_asset
from sources.common.positions import EndPosition
from sources.common.times import to_ms
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from tests.e2e.case import moment
from tests.orchestration.supervision.live_case import LiveCase

PNG = b"\x89PNG\r\n\x1a\n"
DAY = 1440


def written(case: LiveCase, *numbers: int, name: str = "at") -> None:
    """A target with rows of these minutes."""
    times = pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC"))
    deltalake.write_deltalake(
        case.loaded.locate("out"), pa.table({name: times, "id": list(numbers)})
    )


def read(case: LiveCase) -> None:
    """What a run of history leaves that has read 30 rows in 10 s."""
    at = to_ms(moment(0))
    samples = [
        Sample(launch_id="a", at_ms=at, done=0, left=30),
        Sample(launch_id="a", at_ms=at + 10_000, done=30, left=0, event_time_ms=at),
    ]
    log = ProgressLog(unit="rows", samples=samples)
    case.generation.replace(progress_log_name("history"), log)
    end = EndPosition(
        source="history",
        event_time_ms=at,
        complete_through_ms=at,
        event_times="exact",
        splits=1,
        rows=30,
    )
    case.generation.put_if_absent("positions/history-end.json", end)


def shown(case: LiveCase) -> dict[str, Any]:
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [progress_asset(case.loaded)], instance=instance, selection=["events/progress"]
        )
    [event] = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def drawn(logs: Mapping[str, ProgressLog], seam_ms: int | None) -> bytes:
    # Matplotlib takes long to import, and nothing else here needs it.
    from hybrid_extensions.report import plots  # noqa: PLC0415

    return plots.phases(logs, seam_ms)


def test_the_page_has_a_picture_of_both_phases_and_of_the_rows_by_day(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    read(case)
    written(case, 1, 2, DAY)
    found = shown(case)
    for name in ("progress", "rows by day"):
        head, _, data = found[name].removesuffix(")").partition(",")
        assert head == f"![{name}](data:image/png;base64"
        assert base64.b64decode(data).startswith(PNG)
    assert found["history (rows/s on average)"] == 3.0
    assert found["history: time left"] == "none"


def test_without_matplotlib_it_names_the_extra_and_shows_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    case = LiveCase(tmp_path)
    read(case)
    found = shown(case)
    assert "pip install 'hybrid-backfill[plots]'" in found["progress"]
    assert found["history (rows/s on average)"] == 3.0


def test_before_anything_ran_it_says_so(tmp_path: Path) -> None:
    found = shown(LiveCase(tmp_path))
    assert found == {
        "progress": "No source has been read yet, so there is nothing to plot.",
        "rows by day": "There is no target table yet.",
        "generation": "g1, the first one",
    }


def test_rows_are_counted_by_day_without_those_that_have_none(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    written(case, 1, 2, DAY)
    nothing = pa.table({"at": pa.nulls(1, pa.timestamp("us", "UTC")), "id": [9]})
    deltalake.write_deltalake(case.loaded.locate("out"), nothing, mode="append")
    days = [(date(2024, 1, 1), 2), (date(2024, 1, 2), 1)]
    assert progress.rows_by_day(case.loaded) == progress.RowsByDay("at", days)


def test_rows_of_days_that_python_does_not_have_are_not_counted(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    times = pa.array([253_402_300_800_000_000]).cast(pa.timestamp("us", "UTC"))
    deltalake.write_deltalake(case.loaded.locate("out"), pa.table({"at": times, "id": [1]}))
    assert progress.rows_by_day(case.loaded) == (
        "Column `at` of the target table has dates outside of the years 1000 to 9000, so its rows "
        "are not counted by day."
    )


@pytest.mark.parametrize("day", [date(1, 1, 1), date(9999, 12, 31)])
def test_rows_of_days_that_no_picture_has_are_not_counted(tmp_path: Path, day: date) -> None:
    case = LiveCase(tmp_path)
    read(case)
    days = pa.table({"until": [date(2024, 1, 1), day], "id": [1, 2]})
    deltalake.write_deltalake(case.loaded.locate("out"), days)
    found = shown(case)
    assert found["rows by day"].startswith("Column `until` of the target table has dates outside")
    assert "/png;base64" in found["progress"]


@pytest.mark.parametrize("day", [date(1000, 1, 1), date(9000, 12, 31)])
def test_the_first_and_the_last_day_of_a_picture_are_drawn(tmp_path: Path, day: date) -> None:
    case = LiveCase(tmp_path)
    read(case)
    days = pa.table({"until": [date(2024, 1, 1), day], "id": [1, 2]})
    deltalake.write_deltalake(case.loaded.locate("out"), days)
    assert "/png;base64" in shown(case)["rows by day"]


def test_files_without_statistics_are_counted_all_the_same(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    written(case, 1, 2)
    log = Path(case.loaded.locate("out")) / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, lines)))
    found = progress.rows_by_day(case.loaded)
    assert found == progress.RowsByDay("at", [(date(2024, 1, 1), 2)])


def test_another_time_of_the_target_stands_in_for_an_event_time_that_it_lacks(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    written(case, 1, name="window start")
    found = progress.rows_by_day(case.loaded)
    assert found == progress.RowsByDay("window start", [(date(2024, 1, 1), 1)])


def test_a_table_that_is_too_large_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    written(case, 1, 2, 3)
    monkeypatch.setattr(progress, "MOST_ROWS", 2)
    assert progress.rows_by_day(case.loaded) == (
        "The target table has 3 rows; only tables of up to 2 rows are counted by day."
    )


@pytest.mark.parametrize("launches", [1, 3])
def test_a_picture_stays_small_however_long_the_runs_were(launches: int) -> None:
    log = ProgressLog(unit="records")
    for at in range(2_000):
        sample = Sample(
            launch_id=str(at * launches // 2_000),
            at_ms=at * 5_000,
            done=at * at,
            left=(at * 7919) % 1000,
            event_time_ms=at * 60_000,
        )
        log = log.with_sample(sample)
    assert len(drawn({"history": log, "live": log}, 60_000_000)) < 150_000


def test_late_rows_have_a_plot_of_their_own_once_there_is_a_watermark() -> None:
    def height(late_rows: int | None) -> int:
        samples = [
            Sample(launch_id="a", at_ms=at * 1000, done=at, left=0, late_rows=late_rows)
            for at in range(3)
        ]
        png = drawn({"live": ProgressLog(unit="records", samples=samples)}, None)
        assert png.startswith(PNG)
        return int.from_bytes(png[20:24], "big")

    assert height(None) == 560
    assert height(0) == 720
