"""Entries of a plan's log: what each part adds, and that an object never changes."""

from __future__ import annotations

import pyarrow as pa

from sources.config.source.file_source import FileSource
from spark_jobs.inside.readers.files.plan_entries import PlanEntries, PlannedPart

DECLARED = {"type": "files", "name": "h", "path": "in/*", "format": "parquet"}
SOURCE = FileSource.model_validate(DECLARED)


def part(rows: list[int | None], highest_us: list[int | None]) -> PlannedPart:
    columns = {
        "path": [f"{n}.parquet" for n in range(len(rows))],
        "length": [100] * len(rows),
        "rows": pa.array(rows, pa.int64()),
        "event_max_us": pa.array(highest_us, pa.int64()),
    }
    return PlannedPart(pa.table(columns), SOURCE)


def test_files_that_arrive_continue_the_totals_and_leave_the_entries_before_as_they_are() -> None:
    before = PlanEntries((part([10, 20], [5_000, 3_000]),))
    assert before.reached(2) == (2, 30, 5)
    after = before.with_part(part([7], [9_000]))
    assert [after.reached(entries) for entries in range(4)] == [
        (0, 0, None),
        (1, 10, 5),
        (2, 30, 5),
        (3, 37, 9),
    ]
    assert before.reached(2) == (2, 30, 5)
    assert len(before.splits()) == 2


def test_each_part_has_versions_of_its_own() -> None:
    entries = PlanEntries((part([1, 2], [1, 2]), part([], []), part([3], [3])))
    assert list(entries.versions()) == [(0, 0, 2), (1, 0, 0), (2, 0, 1)]


def test_unknown_rows_and_event_times_stay_unknown() -> None:
    entries = PlanEntries((part([1, None], [None, None]),))
    assert entries.reached(2) == (2, None, None)


def test_entries_without_a_split_count_as_read_with_nothing_in_them() -> None:
    # Only another input has rows at the times of the first and the third.
    table = pa.table(
        {
            "length": [1, 1],
            "rows": pa.array([5, 7], pa.int64()),
            "event_max_us": pa.array([1000, 3000], pa.int64()),
            "tick": pa.array([1, 3], pa.int64()),
        }
    )
    entries = PlanEntries((PlannedPart(table, SOURCE.parsed()),))
    assert [version.stop for version in entries.versions()] == [4]
    assert [entries.parts[0].splits_of(rank) for rank in range(4)] == [
        (0, 0),
        (0, 1),
        (1, 1),
        (1, 2),
    ]
    found = [entries.reached(read) for read in range(5)]
    assert found == [(0, 0, None), (0, 0, None), (1, 5, 1), (1, 5, 1), (2, 12, 3)]
