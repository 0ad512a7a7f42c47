"""A MERGE is committed once for a version, and marks no other write of the session."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Transaction
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import KeyRange, Match
from spark_jobs.inside.sink.merging.merge_once import _apart, _spans, merge_once, with_user_metadata
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


def test_of_a_large_table_only_files_that_may_have_one_of_few_keys_are_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = tmp_path / "out"
    vectors = {"delta.enableDeletionVectors": "true"}
    files: list[set[Path]] = []
    for first in (0, 100, 200):
        ids = spark.range(first, first + 100, 1, 1).selectExpr("id AS `a.id`", "'old' AS v")
        ids.write.format("delta").options(**vectors).mode("append").save(str(table))
        files.append({*table.glob("*.parquet")})
    (between,) = files[1] - files[0]
    rows = spark.sql("SELECT explode(array(3L, 97L, 203L, -1L)) AS `a.id`, 'new' AS v").persist()
    clauses = [
        When("MATCHED", "UPDATE", values=of_source(rows.columns)),
        When("NOT MATCHED", "INSERT", values=of_source(rows.columns)),
    ]
    small = SmallMerge(rows=4, bytes=0, compared=["a.id"], clauses=clauses)
    match = KeyRange(rows, ["a.id"]).match([-1, 203])
    # Whoever reads it fails.
    aside = between.rename(tmp_path / "aside")
    merge_once(rows, Folder(table), match, clauses, Transaction("me", 0), small)
    aside.rename(between)
    found = {row[0]: row[1] for row in spark.read.format("delta").load(str(table)).collect()}
    new = dict.fromkeys((3, 97, 203, -1), "new")
    assert found == dict.fromkeys(range(300), "old") | new


def test_of_many_keys_those_apart_from_most_let_files_out_too(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = tmp_path / "out"
    files: list[set[Path]] = []
    for first in (0, 10_000, 20_000):
        ids = spark.range(first, first + 10_000, 1, 1).selectExpr("id", "'old' AS v")
        vectors = {"delta.enableDeletionVectors": "true"}
        ids.write.format("delta").options(**vectors).mode("append").save(str(table))
        files.append({*table.glob("*.parquet")})
    (between,) = files[1] - files[0]
    keys = [*range(25_000, 35_000), 7, 9_999, -1]
    spark.createDataFrame([(key,) for key in keys], "id bigint").createOrReplaceTempView("many")
    rows = spark.sql("SELECT id, 'new' AS v FROM many").persist()
    values = of_source(rows.columns)
    clauses = [
        When("MATCHED", "UPDATE", values=values),
        When("NOT MATCHED", "INSERT", values=values),
    ]
    # So large that Spark merges.
    small = SmallMerge(rows=len(keys), bytes=2**40, compared=["id"], clauses=clauses)
    match = KeyRange(rows, ["id"]).match([-1, 34_999])
    # Whoever reads it fails.
    aside = between.rename(tmp_path / "aside")
    merge_once(rows, Folder(table), match, clauses, Transaction("me", 0), small)
    aside.rename(between)
    found = {row[0]: row[1] for row in spark.read.format("delta").load(str(table)).collect()}
    assert found == dict.fromkeys(range(30_000), "old") | dict.fromkeys(keys, "new")


LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(LONGS, min_size=1, max_size=300), LONGS, st.integers(0, 3000))
def test_ranges_of_keys_hold_all_of_them_and_are_apart(
    keys: list[int], first: int, dense: int
) -> None:
    keys += range(first, min(first + dense, 2**63))
    spans = [each.to_pylist() for each in _spans(pa.chunked_array([pa.array(keys, pa.int64())]))]
    assert [key for each in spans for key in each] == sorted({*keys})
    distance, gaps = max(keys) - min(keys), [b[0] - a[-1] for a, b in pairwise(spans)]
    assert all(gap > distance // 4096 for gap in gaps)
    # The widest gaps are outside of the ranges.
    inside = [b - a for each in spans for a, b in pairwise(each)]
    assert len(spans) <= 64
    assert max(inside, default=0) <= max(distance // 4096, min(gaps, default=distance))
    if len(spans) < 64:
        assert max(inside, default=0) <= distance // 4096


@given(st.lists(st.integers(1, 700), min_size=1, max_size=64))
def test_the_smallest_ranges_are_listed_as_long_as_all_of_their_keys_are_few(
    sizes: list[int],
) -> None:
    spans = [pa.array(range(size)) for size in sizes]
    listed = _apart(spans)
    others = [sizes[at] for at in range(len(sizes)) if at not in listed]
    total = sum(sizes[at] for at in listed)
    assert total <= 1000
    assert not others or total + min(others) > 1000
    assert all(sizes[at] <= size for at in listed for size in others)
