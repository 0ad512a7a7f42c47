"""Event times that are kept wherever they lie: no watermark may depend on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import InputError
from spark_jobs.inside.checkpoint.kept_event_times import require_no_watermark_on
from tests.e2e.case import Case, windows
from tests.e2e.in_session import run_history

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
Transform = Callable[[DataFrame], DataFrame]


def _by_python(rows: DataFrame) -> DataFrame:
    kept = rows.mapInArrow(lambda batches: batches, "id bigint, moment timestamp")
    return kept.withWatermark("moment", "1 hour")


ON_THE_EVENT_TIME: dict[str, Transform] = {
    "itself": lambda rows: rows.withWatermark("at", "1 hour"),
    "renamed": lambda rows: rows.withColumnRenamed("at", "t").withWatermark("t", "1 hour"),
    "computed": lambda rows: rows.withColumn(
        "hour", F.date_trunc("hour", F.col("at") + F.expr("INTERVAL 1 HOUR"))
    ).withWatermark("hour", "1 hour"),
    "in a union": lambda rows: (
        rows.select("id", "at")
        .unionByName(rows.select("id", F.col("seen").alias("at")))
        .withWatermark("at", "1 hour")
    ),
    "below an aggregation": lambda rows: (
        rows.withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour")).count()
    ),
    "made by Python": _by_python,
}
NOT_ON_IT: dict[str, Transform] = {
    "no watermark": lambda rows: rows.where("at > '2000-01-01'"),
    "another column": lambda rows: rows.withWatermark("seen", "1 hour"),
    "another column beside it": lambda rows: (
        rows.withColumn("day", F.to_date("at"))
        .withColumn("noticed", F.col("seen"))
        .withWatermark("noticed", "1 hour")
    ),
}


def stream(spark: SparkSession) -> DataFrame:
    columns = "id bigint, at timestamp, seen timestamp"
    return spark.readStream.schema(columns).parquet("/nowhere/*")


@pytest.mark.parametrize("name", ON_THE_EVENT_TIME)
def test_a_watermark_on_event_times_that_are_kept_is_found(spark: SparkSession, name: str) -> None:
    with pytest.raises(InputError, match=r"sets a watermark on `\w+`, which it takes from") as told:
        require_no_watermark_on("at", ON_THE_EVENT_TIME[name](stream(spark)))
    assert "`event_time.outside: quarantine`" in told.value.hint


@pytest.mark.parametrize("name", NOT_ON_IT)
def test_any_other_watermark_is_accepted(spark: SparkSession, name: str) -> None:
    require_no_watermark_on("at", NOT_ON_IT[name](stream(spark)))


@pytest.mark.kafka
def test_keep_is_refused_where_the_transform_has_a_watermark_before_a_row_is_written(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1010))

    def edit(document: dict[str, Any]) -> None:
        windows(document)
        document["event_time"] = {"column": "at", "outside": "keep"}

    with pytest.raises(InputError, match="sets a watermark on `at`"):
        run_history(spark, case.pipeline(edit))
    assert not (tmp_path / "out").exists()
