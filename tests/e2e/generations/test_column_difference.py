"""Which columns another transform returns otherwise, and whether the table has what they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from spark_jobs.inside.changed_columns.difference import compare_transforms

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
GIVEN = {"id": "bigint", "at": "timestamp", "v": "double", "word": "string"}
Declare = Callable[[str], LoadedPipeline]


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """A pipeline whose transform is a query."""

    def declared(query: str) -> LoadedPipeline:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "transform.sql").write_text(query)
        source = {"type": "files", "name": "history", "format": "json", "path": "in/*.json"}
        document = {
            "name": "events",
            "event_time": "at",
            "key": ["id"],
            "sources": [{**source, "schema": GIVEN}],
            "transform": {"sql": "transform.sql"},
            "sink": {"path": "out", "mode": "append", "key": ["id"], "partition_by": ["day"]},
            "state": "state",
        }
        (folder / "events.yaml").write_text(yaml.safe_dump(document))
        return load_pipeline(folder / "events.yaml")

    return declared


BEFORE = """
WITH positive AS (SELECT * FROM input WHERE v > 0)
SELECT id, at, to_date(at) AS day, v * 2 AS double, concat(word, '!') AS said, rand() AS chance
FROM positive
"""


def test_only_columns_with_other_expressions_are_computed_from_what_the_table_has(
    spark: SparkSession, declare: Declare
) -> None:
    now = """
    SELECT double > 10 AS is_big, id, at, to_date(at) AS day, double, said || '?' AS said,
        dayofweek(to_date(at)) AS weekday, 'x' AS mark
    FROM (SELECT *, 2 * v AS other, v * 2 AS double, concat(word, '!') AS said FROM input)
    WHERE v > 0
    """
    found = compare_transforms(spark, declare(BEFORE), declare(now), GIVEN)
    # Not from `day`, by which the table is partitioned: no file has it.
    assert {each.name: each.inputs for each in found.changed} == {
        "is_big": ["double"],
        "said": ["said"],
        "weekday": ["at"],
        "mark": [],
    }
    assert [each.type for each in found.changed] == ["boolean", "string", "int", "string"]
    assert found.kept == ["id", "at", "day", "double"]
    assert found.removed == ["chance"]
    assert found.inputs == ["at", "double", "said"]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("SELECT id, at, to_date(at) AS day, v FROM input WHERE v > 0", "computed from `v`"),
        ("SELECT id, at, to_date(at) AS day FROM input WHERE v > 1", "other rows"),
        ("SELECT id, at, to_date(at) AS day FROM input", "other rows"),
        ("SELECT id, at, to_date(at) AS day, randn() AS r FROM input WHERE v > 0", "deterministic"),
        (
            "SELECT id, at, to_date(at) AS day, at > now() AS is_new FROM input WHERE v > 0",
            "deterministic",
        ),
        ("SELECT id + 1 AS id, at, to_date(at) AS day FROM input WHERE v > 0", "`sink.key`"),
        ("SELECT id, at, date_add(at, 1) AS day FROM input WHERE v > 0", "`sink.partition_by`"),
        ("SELECT id, at, to_date(at) AS day, v * 2 AS DOUBLE FROM input WHERE v > 0", "its case"),
        (
            "SELECT id, max(at) AS at, to_date(max(at)) AS day FROM input WHERE v > 0 GROUP BY id",
            "`Aggregate` in Spark's plan",
        ),
        ("SELECT DISTINCT id, at, to_date(at) AS day FROM input WHERE v > 0", "`Distinct`"),
        (
            "SELECT id, at, to_date(at) AS day, (SELECT 1) AS one FROM input WHERE v > 0",
            "by a subquery",
        ),
        ("SELECT id, at, to_date(at) AS day FROM input WHERE v > 0 LIMIT 1", "`GlobalLimit`"),
    ],
)
def test_what_can_not_be_computed_column_by_column_is_refused(
    spark: SparkSession, declare: Declare, now: str, told: str
) -> None:
    with pytest.raises(InputError, match="generation new P") as refused:
        compare_transforms(spark, declare(BEFORE), declare(now), GIVEN)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "condition", ["at < current_timestamp()", "id IN (SELECT id FROM range(3))"]
)
def test_conditions_on_the_clock_or_another_table_are_not_the_same_later(
    spark: SparkSession, declare: Declare, condition: str
) -> None:
    query = f"SELECT id, at, to_date(at) AS day{{}} FROM input WHERE {condition}"
    before, now = declare(query.format("")), declare(query.format(", id AS same"))
    with pytest.raises(InputError, match="passes on other rows"):
        compare_transforms(spark, before, now, GIVEN)


def test_sums_in_another_order_are_others_where_digits_may_differ(
    spark: SparkSession, declare: Declare
) -> None:
    columns = "SELECT id, at, to_date(at) AS day, v"
    before = declare(f"{columns}, v + id / 3 + 0.1D AS a, id + 2 + length(word) AS b FROM input")
    now = declare(f"{columns}, v + (id / 3 + 0.1D) AS a, 2 + (id + length(word)) AS b FROM input")
    found = compare_transforms(spark, before, now, GIVEN)
    assert [each.name for each in found.changed] == ["a"]


def test_functions_of_users_are_computed_again(spark: SparkSession, declare: Declare) -> None:
    spark.udf.register("doubled", lambda v: v * 2, "double")
    query = "SELECT id, at, to_date(at) AS day, v, doubled(v) AS d FROM input"
    found = compare_transforms(spark, declare(query), declare(query), GIVEN)
    assert {each.name: each.inputs for each in found.changed} == {"d": ["v"]}


def test_a_changed_value_may_be_computed_from_what_it_was(
    spark: SparkSession, declare: Declare
) -> None:
    before = declare("SELECT id, at, to_date(at) AS day, v FROM input")
    now = declare("SELECT id, at, to_date(at) AS day, v * v AS v, v + id AS w FROM input")
    found = compare_transforms(spark, before, now, GIVEN)
    assert {each.name: each.inputs for each in found.changed} == {"v": ["v"], "w": ["id", "v"]}
