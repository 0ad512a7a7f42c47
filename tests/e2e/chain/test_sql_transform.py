"""A transform that is a query, over the seam: what it keeps, what it refuses, how it is proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

HOURLY = """
-- The window is made in a WITH clause, which Spark keeps apart from the rest of its plan.
WITH events AS (SELECT window(at, '3 hours', '1 hour') AS hours, v FROM input)
SELECT hours.start AS start, count(*) AS n, sum(v) AS total FROM events GROUP BY hours
"""
AUDITED = """
SELECT window.start AS start, count(*) AS n, sum(v) AS total
FROM input GROUP BY window(at, '3 hours', '1 hour')
"""


def declared(case: Case, text: str, delay: str = "1 hour") -> LoadedPipeline:
    """The pipeline with this query."""
    (case.folder / "hourly.sql").write_text(text)

    def edit(document: dict[str, Any]) -> None:
        watermark = {"column": "at", "delay": delay}
        document["transform"] = {"sql": "hourly.sql", "watermark": watermark}
        document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}

    return case.pipeline(edit)


def test_a_window_that_began_in_a_file_is_completed_from_the_topic(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = declared(case, HOURLY)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    changed = HOURLY.replace("'3 hours'", "'6 hours'")
    with pytest.raises(StateError, match=r"by window\(at, .*10,800 s.*\n  it is: .*21,600 s"):
        run_live(spark, declared(case, changed))
    with pytest.raises(StateError, match=r"a watermark of .* on at\n  it is:  a watermark of"):
        run_live(spark, declared(case, HOURLY, "2 hours"))

    # Another text for the same computation resumes, and is on record.
    loaded = declared(case, AUDITED)
    run_live(spark, loaded)
    first, last = (each.code for each in read_transforms(loaded.require_generation()))
    assert first != last
    report = audit(loaded)
    assert report.expected > 30
    assert wrong(report) == {}
    assert not spark.catalog.tableExists("input")
