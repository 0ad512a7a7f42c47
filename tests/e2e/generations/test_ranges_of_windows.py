"""Windows of a range recomputed from corrected files, beside a live run that has state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.analysis.spark.analyze import analyze
from hybrid_extensions.audit.run import audit
from hybrid_extensions.ranges.partitions import ranges_key
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import keep_analysis, request_by_plan
from sources.storage.folder import Folder
from tests.e2e.case import HISTORY, Case, live_of, moment, windows, wrong
from tests.e2e.generations.test_ranges import call
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
APPENDING = """

def appended(rows):
    return (
        rows.withWatermark("at", "1 hour")
        .groupBy(F.window("at", "1 hour"), F.expr("id % 2 AS odd"))
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    )
"""
CORRECTED = [n for n in HISTORY if not 420 <= n < 540 or n % 3]
"""History whose rows from 7:00 until 9:00 were corrected."""


def handed_over(
    spark: SparkSession, case: Case, edit: Callable[[dict[str, Any]], None]
) -> LoadedPipeline:
    """A pipeline whose history is read and whose stream may start."""
    case.write_history()
    case.produce(range(1000, 1200))
    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    context = PipelineContext.require(loaded)
    keep_definition(loaded, context.generation)
    # As the plan does in a process of its own.
    request, empty = request_by_plan(loaded, context.plan), Folder(case.folder / "empty")
    keep_analysis(context.generation, analyze(spark, loaded, request, empty))
    return loaded


def test_windows_of_a_range_are_recomputed_while_those_that_are_open_take_in_live_rows(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    loaded = handed_over(spark, case, windows)  # three hours, one every hour, merged
    seen: dict[str, Any] = {}

    def correct() -> None:
        case.write_history(CORRECTED)
        seen["wrong"] = wrong(audit(loaded))
        seen["would"] = call(loaded, 300, 540, "--dry-run")[1]
        seen["too late"] = call(loaded, 300, 721)[1]
        seen["none"] = call(loaded, 301, 359)[1]
        seen["done"] = call(loaded, 300, 540)[1]
        case.produce(range(1200, 1400))

    run_live(spark, loaded, meanwhile=correct)
    # The windows from 5:00, 6:00, 7:00 and 8:00 on have rows of these two hours.
    assert seen["wrong"] == {"different": 4}
    assert seen["would"]["reads"] == ["2024-01-01T05:00:00Z", "2024-01-01T11:00:00Z"]
    # Complete through 14:59, so that the window from 12:00 on is not.
    assert "ends at 2024-01-01T15:00:00Z, but history of" in seen["too late"]["message"]
    assert "Set `until` to 2024-01-01T12:00:00Z or earlier" in seen["too late"]["hint"]
    assert "windows of 3 h start every 1 h" in seen["none"]["message"]
    assert (seen["done"]["removed"], seen["done"]["written"]) == (4, 4), seen["done"]
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")


def appending(document: dict[str, Any]) -> None:
    """Turn the pipeline into windows that are appended once they have ended."""
    document["transform"] = "appended:appended"
    document["sink"] = {"path": "out", "mode": "append", "key": ["window", "odd"]}
    document["ranges"] = {"by": "hour", "start": "2024-01-01", "end": "2024-01-02"}


def hours(numbers: Iterable[int]) -> list[tuple[datetime, int, int, float]]:
    """What DuckDB makes of events: hour, oddness, their number, their sum."""
    events = pa.table({"id": list(numbers)})
    assert events.num_rows
    query = "SELECT id // 60, id % 2, count(*), sum(id / 2) FROM events GROUP BY ALL"
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    return sorted((moment(hour * 60), odd, n, total) for hour, odd, n, total in rows)


def in_table(folder: Path) -> list[tuple[datetime, int, int, float]]:
    rows = DeltaTable(folder / "out").to_pyarrow_table().to_pylist()
    return sorted((row["window"]["start"], row["odd"], row["n"], row["total"]) for row in rows)


def test_partitions_of_appended_windows_are_recomputed_from_dagster(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "appended.py").write_text(f"from pyspark.sql import functions as F\n{APPENDING}")
    loaded = handed_over(spark, case, appending)
    # The watermark is an hour behind 19:59; the last windows come with a micro-batch without rows.
    ended = [n for n in range(1200) if n < 18 * 60]
    run_live(spark, loaded, lambda _: len(in_table(tmp_path)) >= len(hours(ended)))
    assert in_table(tmp_path) == hours(ended)
    case.write_history(CORRECTED)
    assets = pipeline_definitions(loaded).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        done = assets.execute_in_process(
            instance=instance,
            asset_selection=[ranges_key(loaded)],
            tags={
                "dagster/asset_partition_range_start": "2024-01-01-07:00",
                "dagster/asset_partition_range_end": "2024-01-01-14:00",
            },
        )
    events = [event.materialization for event in done.get_asset_materialization_events()]
    by = {str(event.partition)[-5:]: event.metadata for event in events}
    # History is complete through 14:59: the hour from 14:00 on belongs to the live run.
    assert by["07:00"]["rows replaced"].value == 14
    assert "the live run" in str(by["14:00"]["delivered by"].value)
    assert {at: each["dagster/row_count"].value for at, each in by.items()} == dict.fromkeys(by, 2)
    assert in_table(tmp_path) == hours(n for n in ended if n >= 1000 or n in CORRECTED)
