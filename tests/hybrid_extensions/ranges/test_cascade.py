"""One run of Dagster recomputes a range, and what two tables in a row were made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.ranges.partitions import ranges_key
from orchestration.pipeline_definitions import pipeline_definitions
from tests.e2e.case import wrong
from tests.e2e.in_session import run_live
from tests.hybrid_extensions.ranges.test_follow import correct, has_watermark, planned
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

RANGES: dict[str, Any] = {"by": "hour", "start": "2024-01-01", "end": "2024-01-02"}


def test_a_range_is_recomputed_in_three_tables_in_a_row_by_one_run(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = TwoPipelines(tmp_path)
    case.write_thousand()
    first, second = case.first(ranges=RANGES), case.second(windows=False, ranges=RANGES)
    third = case.third(ranges=RANGES)
    for each in (first, second):
        planned(spark, each)
        run_live(spark, each)
    planned(spark, third)
    run_live(spark, third, lambda _: has_watermark(third))
    # Five hours of the first table's files are written again.
    correct(case)
    versions = [DeltaTable(each.target.url).version() for each in (first, second, third)]
    defs = dg.Definitions.merge(*(pipeline_definitions(each) for each in (first, second, third)))
    with dg.DagsterInstance.ephemeral() as instance:
        done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[ranges_key(each) for each in (first, second, third)],
            # As a backfill of Dagster launches it for partitions next to each other.
            tags={
                "dagster/asset_partition_range_start": "2024-01-01-05:00",
                "dagster/asset_partition_range_end": "2024-01-01-09:00",
            },
            instance=instance,
        )
        marked = [
            instance.get_materialized_partitions(ranges_key(each))
            for each in (first, second, third)
        ]
    assert done.success
    assert marked == [{f"2024-01-01-{hour:02}:00" for hour in range(5, 10)}] * 3
    # Each table got one commit, and is what all raw input makes of it.
    now = [DeltaTable(each.target.url).version() for each in (first, second, third)]
    assert now == [version + 1 for version in versions]
    assert (case.differences(second), case.differences(third)) == (0, 0)
    for each in (second, third):
        report = audit(each)
        assert (wrong(report), report.ok) == ({}, True)
    # And all go on from there.
    case.arrive(range(1000, 1100))
    for each in (first, second, third):
        run_live(spark, each)
    assert (case.differences(second), case.differences(third)) == (0, 0)
