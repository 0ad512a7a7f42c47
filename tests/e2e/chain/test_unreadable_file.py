"""A planned file that can't be read: people are told its path, not only that of the target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sources.config.loader import load_pipeline
from sources.generations import begin
from sources.serving import own_table
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog
from tests.e2e.case import TRANSFORMS, as_json, moment
from tests.e2e.in_session import run_history
from tests.minimal import minimal_declaration

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_damaged_file_is_named_and_nothing_is_tried_again(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    for number in range(2):
        ids = list(range(1000 * number, 1000 * number + 1000))
        at = pa.array(map(moment, ids), pa.timestamp("us", "UTC"))
        path = tmp_path / f"a {number}.parquet"
        pq.write_table(pa.table({"id": ids, "at": at}), path, use_dictionary=False)
    # As a disk damages it: same size, same time.
    damaged = tmp_path / "a 1.parquet"
    content, found = bytearray(damaged.read_bytes()), damaged.stat()
    content[100:900] = b"\xff" * 800
    damaged.write_bytes(content)
    os.utime(damaged, ns=(found.st_atime_ns, found.st_mtime_ns))
    declared = minimal_declaration(
        {"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"},
        name="events",
        key=["id"],
        sink={"path": "out", "mode": mode, "key": ["id"]},
    )
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(declared))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
        run_history(spark, load_pipeline(tmp_path / "events.yaml"))
    report = report_of(caught.value)
    assert (report.kind, report.transient) == ("input", False)
    assert report.fields == {"file": str(damaged)}
    assert f"File {damaged} can't be read" in report.message


def test_a_file_with_values_that_spark_has_not_is_named_with_what_to_do(
    tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    at, file = pa.array([moment(1)], pa.timestamp("us", "UTC")), tmp_path / "a.parquet"
    far = pa.array([2**62], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"id": [1], "at": at, "v": far}), file)
    declared = minimal_declaration(
        {"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"},
        name="events",
    )
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(declared))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
        run_history(spark, load_pipeline(tmp_path / "events.yaml"))
    report = report_of(caught.value)
    assert report.fields == {"file": str(file)}
    assert "is written in a way that Spark does not read: long overflow" in report.message
    assert "damaged" not in report.message
    # What the hint says: times in microseconds, and a new generation.
    pq.write_table(pa.table({"id": [1], "at": at, "v": at}), file)
    loaded = load_pipeline(tmp_path / "events.yaml")
    begin(loaded)
    run_history(spark, loaded)
    found = DeltaTable(own_table(loaded, "g2").url).to_pyarrow_table(columns=["id", "v"])
    assert found.to_pylist() == [{"id": 1, "v": moment(1)}]


def test_of_a_plans_log_that_has_lost_a_file_the_rest_is_deleted_and_all_written_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    (tmp_path / "a.json").write_text(as_json(1))
    columns = {"id": "bigint", "at": "timestamp", "v": "double"}
    declared = minimal_declaration(
        {"name": "history", "type": "files", "path": "*.json", "format": "json", "schema": columns},
        name="events",
    )
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(declared))
    loaded = load_pipeline(tmp_path / "events.yaml")
    write = PlanLog.write

    def lossy(log: PlanLog, version: int, files: FilesOfLog, entries: Iterable[Entry]) -> None:
        write(log, version, files, entries)
        next(log.folder.root.glob("splits-*")).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(PlanLog, "write", lossy)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
            run_history(spark, loaded)
    folder = loaded.require_generation().path("plan-log/history")
    report = report_of(caught.value)
    assert f"File {folder}/splits-0000-000000.parquet can't be read" in report.message
    assert report.hint.startswith(f"Delete {folder}: the next run")
    shutil.rmtree(folder)
    run_history(spark, loaded)
    assert DeltaTable(tmp_path / "out").to_pyarrow_table()["id"].to_pylist() == [1]
