"""One backfill of Dagster recomputes a range, and what two tables in a row were made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from tests.browser.site import dagster_ui
from tests.e2e.case import wrong
from tests.e2e.in_session import run_live
from tests.hybrid_extensions.ranges.test_dg_backfills import LAUNCH, Ui
from tests.hybrid_extensions.ranges.test_follow import correct, has_watermark, planned
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]

RANGES: dict[str, Any] = {"by": "hour", "start": "2024-01-01", "end": "2024-01-02"}
NAMES = ("first", "second", "third")


def test_a_range_is_recomputed_in_three_tables_in_a_row_by_one_backfill(
    tmp_path: Path, spark: SparkSession
) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    case = TwoPipelines(folder)
    for begin in (0, 300, 600):
        case.write_history(range(begin, begin + 300))
    case.arrive(range(900, 1000))
    first, second = case.first(ranges=RANGES), case.second(windows=False, ranges=RANGES)
    third = case.third(ranges=RANGES)
    for each in (first, second, third):
        planned(spark, each)
        run_live(spark, each, lambda _, loaded=each: loaded is not third or has_watermark(loaded))
    # Five hours of the first table's files are written again.
    correct(case)
    versions = [DeltaTable(each.target.url).version() for each in (first, second, third)]
    with dagster_ui(tmp_path, *(each.path for each in (first, second, third))) as url:
        ui = Ui(url)
        hours = {"ranges": [{"start": "2024-01-01-05:00", "end": "2024-01-01-09:00"}]}
        of = [{"assetKey": {"path": [name, "ranges"]}, "partitions": hours} for name in NAMES]
        made = ui.ask(LAUNCH, of={"partitionsByAssets": of})
        found = ui.ended(str(made["backfillId"]))
    assert (found.status, found.failed) == ("COMPLETED_SUCCESS", dict.fromkeys(NAMES, 0))
    assert (found.targeted, found.done) == (dict.fromkeys(NAMES, 5), dict.fromkeys(NAMES, 5))
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
