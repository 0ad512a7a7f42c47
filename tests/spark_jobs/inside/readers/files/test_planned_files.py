"""What is known of a planned source's micro-batches before Spark is started."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import orc

from sources.config.loader import load_pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import Batch, RateLimit, interval_ms
from sources.planning.plan import make_plan
from spark_jobs.inside.readers.files.kept_batch import waiting_change
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.e2e.case import moment
from tests.minimal import minimal_pipeline

ROWS = [10, 70, 30, 40, 5]


def planned(folder: Path, event_time: Any = "at", **changes: Any) -> PlannedSource:
    history = {"type": "files", "name": "h", "path": "in/*", "batch": {"files": 2}, **changes}
    loaded = minimal_pipeline(folder, history, name="p", event_time=event_time)
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    parts, generation = make_plan(loaded).files, loaded.require_generation()
    pipeline = loaded.pipeline
    return PlannedSource(source, parts, generation, pipeline.event_time, pipeline.stores)


def largest(folder: Path, **changes: Any) -> Batch:
    return planned(folder, **changes).largest


def tables() -> list[pa.Table]:
    made, first = [], 0
    for count in ROWS:
        times = pa.array([moment(n) for n in range(first, first + count)])
        made.append(pa.table({"id": range(count), "at": times.cast(pa.timestamp("us", "UTC"))}))
        first += count
    return made


@pytest.mark.parametrize("form", ["parquet", "orc", "delta"])
def test_rows_of_the_largest_batch_are_known_where_files_tell_them(
    tmp_path: Path, form: str
) -> None:
    (tmp_path / "in").mkdir()
    for at, table in enumerate(tables()):
        if form == "delta":
            write_deltalake(tmp_path / "in", table, mode="append")
        else:
            write = pq.write_table if form == "parquet" else orc.write_table
            write(table, tmp_path / "in" / f"{at}")
    path = {"path": "in"} if form == "delta" else {}
    found = largest(tmp_path, format=form, **path)
    # In order of time, two by two: 10 + 70, 30 + 40, 5.
    assert (found.files, found.rows, found.offsets) == (2, 80, None)
    assert interval_ms(RateLimit(rows=32), found) == 2500


def test_rows_are_not_known_of_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at in range(3):
        (tmp_path / "in" / f"{at}").write_text(f'{{"id": {at}, "at": "{moment(at)}"}}\n')
    found = largest(tmp_path, format="json", schema={"id": "bigint", "at": "timestamp"})
    assert (found.files, found.rows) == (2, None)


@pytest.mark.parametrize("files", [1, 2, 4])
def test_a_changed_batch_leaves_the_groups_of_a_written_log_as_they_are(
    tmp_path: Path, files: int
) -> None:
    (tmp_path / "in").mkdir()
    for at in range(5):
        (tmp_path / "in" / f"{at}").write_text(f'{{"id": {at}, "at": "{moment(at)}"}}\n')
    lines = {"format": "json", "schema": {"id": "bigint", "at": "timestamp"}}
    written = planned(tmp_path, **lines)
    written.prepare()
    changed = planned(tmp_path, **lines, batch={"files": files})
    # Three entries: of two, two and one file. Offsets of the checkpoint count these.
    assert changed.entries == written.entries == [3]
    assert [changed.reached(entries)[0] for entries in range(4)] == [0, 2, 4, 5]
    source = load_pipeline(tmp_path / "p.yaml").pipeline.sources[0]
    assert isinstance(source, FileSource)
    note = waiting_change(source, load_pipeline(tmp_path / "p.yaml").require_generation())
    assert (note is None) == (files == 2)
    if note is not None:
        assert "`batch` of source `h` was changed" in note
        assert "takes effect in the next generation" in note


def test_a_changed_batch_of_parquet_applies_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at, table in enumerate(tables()):
        pq.write_table(table, tmp_path / "in" / f"{at}")
    planned(tmp_path, format="parquet").prepare()
    assert largest(tmp_path, format="parquet", batch={"files": 5}).files == 5


def test_statistics_have_years_of_four_digits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = pa.array([datetime(999, 1, 2, 3, 4, 5, 6789, UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [1], "at": times}), tmp_path / "in" / "0")
    bounds = {"column": "at", "not_before": "0001-01-02T00:00:00Z"}
    planned(tmp_path, bounds, format="parquet").prepare()
    (log,) = (tmp_path / "state").rglob("_delta_log/*0.json")
    (add,) = (each["add"] for each in map(json.loads, log.open()) if "add" in each)
    assert json.loads(add["stats"])["minValues"] == {"at": "0999-01-02T03:04:05.006Z"}
