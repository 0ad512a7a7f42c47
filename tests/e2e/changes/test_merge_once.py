"""A MERGE is committed once for a version, and marks no other write of the session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import Transaction
from pyspark.sql import SparkSession

from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import KeyRange, Match
from spark_jobs.inside.sink.merging.merge_once import merge_once, with_user_metadata
from spark_jobs.inside.sink.merging.small_merge import SmallMerge
from spark_jobs.table.commit_log import CommitLog

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]


def test_a_merge_is_skipped_by_its_version_and_a_later_write_is_not(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = str(tmp_path / "out")
    spark.sql("SELECT 1 AS id, 'first' AS v").write.format("delta").save(table)

    def merge(value: str, version: int) -> None:
        merge_once(
            spark.sql(f"SELECT 1 AS id, '{value}' AS v"),
            Folder(table),
            Match("t.id = s.id", {}),
            [When("MATCHED", "UPDATE", values=of_source(["id", "v"]))],
            Transaction("me", version),
        )

    def values() -> list[str]:
        return sorted(row.v for row in spark.read.format("delta").load(table).collect())

    merge("second", 7)
    assert values() == ["second"]
    merge("skipped", 7)
    assert values() == ["second"]
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (2, 'by others')")
    assert values() == ["by others", "second"]
    merge("third", 8)
    assert values() == ["by others", "third"]


def test_a_merge_says_what_its_session_says_and_the_next_write_what_it_said_before(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = str(tmp_path / "out")
    spark.sql("SELECT 1 AS id, 'first' AS v").write.format("delta").save(table)
    match, log = Match("t.id = s.id", {}), CommitLog(Folder(table))
    clauses = [When("MATCHED", "UPDATE", values=of_source(["id", "v"]))]
    with with_user_metadata(spark, "of the job"):
        with with_user_metadata(spark, "of the batch"):
            rows = spark.sql("SELECT 1 AS id, 'second' AS v")
            merge_once(rows, Folder(table), match, clauses, Transaction("me", 0))
        spark.sql(f"INSERT INTO delta.`{table}` VALUES (2, 'of the job')")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (3, 'of others')")
    said = [each.user_metadata for each in log.between(0, 3)]
    assert said == ["of the batch", "of the job", None]


def test_few_keys_are_named_so_that_spark_leaves_other_rows_of_a_large_table_out(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = str(tmp_path / "out")
    vectors = {"delta.enableDeletionVectors": "true"}
    ids = spark.range(0, 100, 1, 2).selectExpr("id AS `a.id`", "cast(id AS string) AS v")
    ids.write.format("delta").options(**vectors).save(table)
    rows = spark.sql("SELECT explode(array(3, 97, 200, -1)) AS `a.id`, 'new' AS v").persist()
    limits = KeyRange(rows, ["a.id"])
    clauses = [
        When("MATCHED", "UPDATE", values=of_source(rows.columns)),
        When("NOT MATCHED", "INSERT", values=of_source(rows.columns)),
    ]
    small = SmallMerge(rows=4, bytes=0, compared=["a.id"], clauses=clauses)
    match = limits.match([-1, 200])
    merge_once(rows, Folder(table), match, clauses, Transaction("me", 0), small)
    found = {row[0]: row[1] for row in spark.read.format("delta").load(table).collect()}
    new = dict.fromkeys((3, 97, 200, -1), "new")
    assert found == {n: str(n) for n in range(100)} | new
    done = spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").first()
    assert done is not None
    (listed,) = re.findall(r"IN \(([-,0-9]+)\)", done.operationParameters["predicate"])
    assert sorted(map(int, listed.split(","))) == [-1, 3, 97, 200]
