"""A pipeline's table is followed by another pipeline, compared with the raw input of the first."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.supervision.status import status_of
from sources.planning.plan import make_plan
from tests.e2e.case import wrong
from tests.e2e.in_session import fails_with, run_history, run_live
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_a_table_is_read_at_a_version_and_followed_commit_by_commit(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = TwoPipelines(tmp_path)
    case.write_thousand()
    first = case.first()
    run_history(spark, first)
    run_live(spark, first)
    second = case.second()
    plan = make_plan(second)
    assert plan.folder is not None
    assert plan.folder.rows == 1000

    def goes_on() -> None:
        for begin in (1000, 1100):
            case.arrive(range(begin, begin + 100))
            run_live(spark, first)
            case.compact()

    run_live(spark, second, meanwhile=goes_on)
    assert case.differences(second) == 0
    report = audit(second)
    assert (wrong(report), report.ok, report.input_rows.sources) == ({}, True, {"rows": 1200})
    assert "up to which the pipeline has found what is appended" in report.notes[0]
    # While the second one does not run.
    case.arrive(range(1200, 1300))
    run_live(spark, first)
    behind = next(each for each in status_of(second).parts if each.name == "upstream")
    assert behind.rows[0].cells[-2:] == ("1", "following")
    run_live(spark, second)
    assert case.differences(second) == 0
    # What takes rows away stops the second one, and none of it reaches its table.
    DeltaTable(first.target.url).delete("id = 7")
    case.arrive(range(1300, 1400))
    with fails_with("by a commit (DELETE where "):
        run_live(spark, second)
    report = audit(second)
    assert (wrong(report), report.ok, report.input_rows.sources) == ({}, True, {"rows": 1300})
