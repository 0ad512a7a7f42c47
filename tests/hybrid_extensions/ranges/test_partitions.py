"""Ranges as partitions: the rows of each, and what has filled them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.ranges import partitions
from hybrid_extensions.ranges.partitions import filled_ranges, ranges_key
from hybrid_extensions.ranges.table.row_counts import rows_by_range
from orchestration.pipeline_definitions import pipeline_definitions
from sources.planning.event_windows import EventWindows
from sources.planning.transform_analysis import TransformAnalysis, keep_analysis
from tests.hybrid_extensions.ranges.marks import mark
from tests.orchestration.generations.generation_case import GenerationCase


def day(number: int) -> datetime:
    return datetime(2024, 1, number, tzinfo=UTC)


def test_rows_are_counted_by_range(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    times = [day(1), day(1) + timedelta(hours=23, minutes=59), day(2), day(4)]
    rows = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "out"), rows)
    windows = {f"{n}": (day(n), day(n + 1)) for n in (1, 2, 3)}
    assert rows_by_range(case.loaded, windows) == {"1": 2, "2": 1, "3": 0}
    # Of the form: any times.
    within = (day(1) + timedelta(hours=23, minutes=30), day(2) + timedelta(microseconds=1))
    assert rows_by_range(case.loaded, {"range": within}) == {"range": 2}
    always = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    assert rows_by_range(case.loaded, {"range": always}) == {"range": 4}


@pytest.mark.parametrize("kind", ["starts", "ends", "windows"])
def test_windows_are_counted_in_the_range_that_they_start_in(tmp_path: Path, kind: str) -> None:
    case = GenerationCase(tmp_path)
    starts = [day(1), day(1) + timedelta(hours=23, minutes=30), day(2), day(4)]
    ends = [start + timedelta(minutes=90) for start in starts]
    times = [pa.array(each, pa.timestamp("us", "UTC")) for each in (starts, ends)]
    columns = {
        "starts": times[0],
        "ends": times[1],
        "windows": pa.StructArray.from_arrays(times, names=["start", "end"]),
    }
    windows = EventWindows(
        length_us=90 * 60_000_000,
        slide_us=30 * 60_000_000,
        offset_us=0,
        column="w",
        field="start" if kind == "windows" else None,
        holds="end" if kind == "ends" else "start",
    )
    generation = case.loaded.open_generation(create=True)
    assert generation is not None
    keep_analysis(generation, TransformAnalysis(digest="d", columns=[], windows=windows))
    write_deltalake(str(tmp_path / "out"), pa.table({"w": columns[kind]}))
    ranges = {f"{n}": (day(n), day(n + 1)) for n in (1, 2, 3)}
    assert rows_by_range(case.loaded, ranges) == {"1": 2, "2": 1, "3": 0}


def test_rows_are_counted_of_no_day_that_the_live_run_may_not_have_passed(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(ranges={"by": "day", "start": "2024-01-01", "end": "2024-01-06"})
    case.run({1: 10}, end=datetime(2024, 1, 2, 12, tzinfo=UTC), at=day(1))
    for number in (2, 4):
        at = pa.array([day(number)], pa.timestamp("us", "UTC"))
        rows = pa.table({"id": [number], "v": [number], "at": at})
        write_deltalake(str(tmp_path / "out"), rows, mode="append")
    with dg.DagsterInstance.ephemeral() as instance:
        events = filled_ranges(case.loaded, instance)
    told = {
        each.partition: (
            str(each.metadata["delivered by"].value).partition(";")[0],
            each.metadata["dagster/row_count"].value if len(each.metadata) > 2 else None,
        )
        for each in events
    }
    assert told == {
        "2024-01-01": ("history", 1),
        "2024-01-02": ("the live run", 1),
        "2024-01-03": ("the live run", 0),
        "2024-01-04": ("the live run, as rows arrive", None),
        "2024-01-05": ("the live run, as rows arrive", None),
    }


def test_days_after_history_are_not_missing_but_the_live_runs(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(ranges={"by": "day", "start": "2024-01-01", "end": "2024-01-06"})
    case.run({1: 10}, end=datetime(2024, 1, 3, 12, tzinfo=UTC))
    with dg.DagsterInstance.ephemeral() as instance:
        events = filled_ranges(case.loaded, instance)
        by = {each.partition: str(each.metadata["delivered by"].value) for each in events}
        assert {key: text.partition(";")[0] for key, text in by.items()} == {
            "2024-01-01": "history",
            "2024-01-02": "history",
            "2024-01-03": "the live run",
            "2024-01-04": "the live run",
            "2024-01-05": "the live run",
        }
        for each in events:
            instance.report_runless_asset_event(each)
        marked = instance.get_materialized_partitions(ranges_key(case.loaded))
        assert marked == set(by)
        assert filled_ranges(case.loaded, instance) == []


def test_what_the_live_run_delivers_is_not_recomputed_and_no_failure(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(ranges={"by": "day", "start": "2024-01-01", "end": "2024-01-06"})
    case.run({1: 10}, end=datetime(2024, 1, 3, 12, tzinfo=UTC))
    definitions = pipeline_definitions(case.loaded)
    with dg.DagsterInstance.ephemeral() as instance:
        done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[ranges_key(case.loaded)],
            tags={
                "dagster/asset_partition_range_start": "2024-01-04",
                "dagster/asset_partition_range_end": "2024-01-05",
            },
        )
        assert done.success
        assert instance.get_materialized_partitions(ranges_key(case.loaded)) == {
            "2024-01-04",
            "2024-01-05",
        }


def test_ranges_that_are_declared_later_are_marked_in_as_many_looks_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GenerationCase(tmp_path)
    generation = case.run({1: 10}, end=datetime(2024, 1, 3, 12, tzinfo=UTC))
    case.write(ranges={"by": "day", "start": "2024-01-01", "end": "2024-01-06"})
    monkeypatch.setattr(partitions, "MOST_MARKED", 2)
    with dg.DagsterInstance.ephemeral() as instance:
        assert mark(case.loaded, instance) == "Nothing was planned yet."
        generation.replace_bytes("plan.json", b"{}")
        for count in (2, 4, 5):
            assert mark(case.loaded, instance) is None
            assert len(instance.get_materialized_partitions(ranges_key(case.loaded))) == count
        assert mark(case.loaded, instance) == "No further range is filled."
