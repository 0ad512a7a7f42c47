"""Rows of files with impossible event times, in every format and under every policy, by Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing import sampler
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from tests.e2e.in_session import fails_with
from tests.minimal import minimal_pipeline
from tests.sources.files.dirty_files import (
    EPOCH,
    FORMATS,
    FUTURE,
    minute,
    raw_rows,
    write_files,
)

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

FILES: Sequence[Sequence[datetime]] = [
    [minute(0), FUTURE, minute(1)],
    [minute(2), minute(3)],
    [EPOCH, EPOCH, minute(4), FUTURE],
]


def declared(folder: Path, form: str, outside: str, **changes: Any) -> LoadedPipeline:
    source = {"name": "h", "type": "files", "path": "in", **FORMATS[form]}
    return minimal_pipeline(
        folder, {**source, **changes}, name="p", event_time={"column": "at", "outside": outside}
    )


def planned(loaded: LoadedPipeline) -> PlannedSource:
    plan, generation = make_plan(loaded), loaded.require_generation()
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    parts = plan.files if plan.folder is None else [plan.folder]
    pipeline = loaded.pipeline
    return PlannedSource(source, parts, generation, pipeline.event_time, pipeline.stores)


def read(spark: SparkSession, found: PlannedSource, generation: Generation) -> list[int]:
    """Run the stream to its end, and return the ids that it has written in all its runs."""
    found.prepare()
    out = generation.path("rows")
    writer = found.stream(spark).select("id").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", generation.checkpoint.hadoop_path)
    query = writer.trigger(availableNow=True).start(str(out))
    query.awaitTermination()
    return sorted(row.id for row in spark.read.parquet(str(out)).collect())


def staged(generation: Generation) -> list[dict[str, Any]]:
    files = sorted(staging_folder(generation, "h").root.glob("*/*.parquet"))
    rows: list[dict[str, Any]] = pa.concat_tables(
        [pq.read_table(file) for file in files]
    ).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("form", "outside"),
    [
        *((form, "quarantine") for form in FORMATS),
        *((form, "drop") for form in ("delta", "csv")),
        *((form, "keep") for form in ("parquet", "json")),
    ],
)
def test_exactly_the_rows_that_count_are_read_and_each_other_one_is_counted_once(
    tmp_path: Path, spark: SparkSession, form: str, outside: str
) -> None:
    write_files(tmp_path, form, FILES)
    loaded = declared(tmp_path, form, outside)
    make_plan(loaded)
    generation = loaded.require_generation()
    every = raw_rows(tmp_path, form)
    bad = sorted(number for number, at in every if at in (FUTURE, EPOCH))
    good = sorted(number for number, _ in every if number not in bad)
    rows = read(spark, planned(loaded), generation)
    if outside == "keep":
        assert rows == sorted(number for number, _ in every)
        return
    assert rows == good
    found = staged(generation)
    assert len({(row["place"], row["offset"]) for row in found}) == len(found) == len(bad)
    assert all("is outside of" in row["reason"] for row in found)
    assert {row["place"] for row in found} <= set(map(str, (tmp_path / "in").iterdir()))
    if outside == "drop":
        assert {row["value"] for row in found} == {None}
    elif form in ("parquet", "delta", "orc", "avro", "json"):
        assert sorted(json.loads(row["value"])["id"] for row in found) == bad
    # Another launch reads nothing, and stages nothing.
    assert read(spark, planned(loaded), generation) == good
    assert len(staged(generation)) == len(bad)


def test_rows_of_a_plan_whose_run_did_not_begin_are_staged_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_files(tmp_path, "parquet", FILES)
    loaded = declared(tmp_path, "parquet", "quarantine")
    for _ in range(2):
        planned(loaded).prepare()
    generation = loaded.require_generation()
    assert len(staged(generation)) == 4
    read(spark, planned(loaded), generation)
    assert len(staged(generation)) == 4


def test_what_the_sample_does_not_show_fails_the_run_with_its_place(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "SAMPLE_BYTES", 60)
    write_files(tmp_path, "json", [[minute(0), minute(1), FUTURE, minute(2), minute(3)]])
    loaded = declared(tmp_path, "json", "fail")
    found = planned(loaded)
    with fails_with(f"{tmp_path}/in/0.json, byte "):
        read(spark, found, loaded.require_generation())
    # The policy may change at any time.
    loaded = declared(tmp_path, "json", "drop")
    assert read(spark, planned(loaded), loaded.require_generation()) == [0, 1, 3, 4]
    assert len(staged(loaded.require_generation())) == 1


def test_a_batch_leaves_out_the_same_rows_and_stages_none(
    tmp_path: Path, spark: SparkSession
) -> None:
    for form in ("parquet", "json"):
        (folder := tmp_path / form).mkdir()
        write_files(folder, form, FILES)
        loaded = declared(folder, form, "drop")
        found = planned(loaded)
        found.prepare()
        shown = len(staged(loaded.require_generation())) if form == "parquet" else 0
        ids = [row.id for row in found.batch(spark).collect()]
        every = raw_rows(folder, form)
        assert sorted(ids) == sorted(n for n, at in every if at not in (FUTURE, EPOCH))
        folders = staging_folder(loaded.require_generation(), "h").root
        assert len(list(folders.glob("*/*.parquet"))) == (1 if shown else 0)


def test_a_policy_that_became_stricter_refuses_rows_that_are_not_staged_yet(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_files(tmp_path, "parquet", FILES)
    planned(declared(tmp_path, "parquet", "drop"))
    strict = declared(tmp_path, "parquet", "fail")
    with pytest.raises(InputError, match="4 rows lie outside"):
        planned(strict).prepare()


def test_files_that_arrive_with_wrong_times_are_left_out_of_a_running_stream(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_files(tmp_path, "parquet", [[minute(0), minute(1)]])
    loaded = declared(tmp_path, "parquet", "drop", discovery_interval="1 s")
    found = planned(loaded)
    generation = loaded.require_generation()
    assert read(spark, found, generation) == [0, 1]
    folder = GrowingFolder(PipelineContext.require(loaded))
    write_files(tmp_path, "parquet", [[minute(0), minute(1)], [EPOCH, minute(2)]])
    arrived = folder.discover()
    assert arrived is not None
    found.extend(arrived)
    assert read(spark, found, generation) == [0, 1, 3]
    (row,) = staged(generation)
    assert (row["place"], row["offset"]) == (f"{tmp_path}/in/1.parquet", 0)


def test_files_within_the_bounds_are_read_by_a_plan_without_any_condition(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_files(tmp_path, "parquet", [[minute(0), minute(1)]])
    for outside in ("fail", "drop", "quarantine", "keep"):
        found = planned(declared(tmp_path, "parquet", outside))
        found.prepare()
        rows = found.batch(spark)
        assert rows.columns == ["id", "at"]
        plan = rows._jdf.queryExecution().executedPlan().toString()
        # Partition columns of a file are constants, of which nothing is computed.
        assert re.search(r"\bFilter [(i]", plan) is None
        assert plan.startswith(("Project [id", "*(1) Project [id"))
        assert sorted(row.id for row in rows.collect()) == [0, 1]
