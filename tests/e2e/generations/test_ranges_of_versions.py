"""Versions of rows in a range recomputed from corrected files, in a table merged by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.hand_over import hand_over
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.generations.test_ranges import call
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
MODULE = """
from pyspark.sql import functions as F

def merged(rows):
    return rows.withColumn("id", F.col("id") % 1000)
"""
LATEST_SQL = """
SELECT id % 1000 AS id, max("at") AS at, arg_max(v, "at") AS v FROM input GROUP BY 1
"""


def merging(document: dict[str, Any]) -> None:
    """Event n of the topic is a newer version of event n - 1000 of history."""
    document["transform"] = "merged:merged"
    document["sink"] = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "at"}
    document["audit"] = {"sql": "latest.sql"}


def correct(folder: Path, first: int, after: int) -> None:
    """Other values of the events from one number to another."""
    for path in (folder / "in").glob("*.parquet"):
        rows = pq.read_table(path)
        inside = pc.and_(pc.greater_equal(rows["id"], first), pc.less(rows["id"], after))
        values = pc.if_else(inside, pc.add(rows["v"], 0.25), rows["v"])
        pq.write_table(rows.set_column(2, "v", values), path)


def test_versions_of_a_range_take_the_place_of_those_that_are_not_newer(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "merged.py").write_text(MODULE)
    (tmp_path / "latest.sql").write_text(LATEST_SQL)
    case.write_history()
    case.produce(range(1000, 1200))
    loaded = case.pipeline(merging)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    keep_definition(loaded, loaded.require_generation())
    answers = []

    def meanwhile() -> None:
        correct(tmp_path, 150, 300)
        answers.append(wrong(audit(loaded)))
        answers.append(call(loaded, 120, 300)[1])
        case.produce(range(1200, 1250))

    run_live(spark, loaded, meanwhile=meanwhile)
    # Those up to 199 have a newer version in the topic.
    assert answers[0] == {"different": 100}
    told = answers[1]
    assert (told["removed"], told["written"], told["kept_live"]) == (100, 100, 80), told
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")

    # A version that the files lack now: an older one might have to come back.
    [path, *_] = sorted((tmp_path / "in").glob("*.parquet"))[1:]
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pc.not_equal(rows["id"], 310)), path)
    before = DeltaTable(tmp_path / "out").version()
    refused = call(loaded, 300, 360)[1]
    assert "1 row of the table has its latest version in the range (such as id: 310)" in str(
        refused
    )
    assert "hybrid rerun " in refused["hint"]
    assert DeltaTable(tmp_path / "out").version() == before
