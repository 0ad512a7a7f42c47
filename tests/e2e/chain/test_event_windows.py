"""Which windows a transform groups rows by, as Spark's plan of it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.analysis.spark.window_lengths import NoWindowsError
from hybrid_extensions.analysis.spark.windows import event_windows
from sources.common.schema import parse_schema
from sources.planning.event_windows import EventWindows
from sources.storage.folder import Folder
from spark_jobs.inside.readers.empty_stream import empty_stream

pytestmark = pytest.mark.spark
HOUR_US = 3_600_000_000
TUMBLING = {"length_us": HOUR_US, "slide_us": HOUR_US, "offset_us": 0}
COLUMNS = {"id": "bigint", "at": "timestamp", "shop": "string", "other": "timestamp"}
Transform = Callable[[DataFrame], DataFrame]


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return empty_stream(spark, Folder(tmp_path / "empty"), parse_schema(COLUMNS))


def marked(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", "10 minutes")


def hourly(rows: DataFrame, *more: str) -> DataFrame:
    return marked(rows).groupBy(F.window("at", "1 hour"), *more).count()


def by_query(rows: DataFrame) -> DataFrame:
    marked(rows).createOrReplaceTempView("input")
    query = (
        "SELECT window.start AS hour, shop, count(*) AS n FROM input "
        "GROUP BY window(at, '1 hour'), shop HAVING count(*) > 1"
    )
    return rows.sparkSession.sql(query)


def shops(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame([("a", "b")], ["shop", "town"])


FOUND: dict[str, tuple[Transform, dict[str, Any]]] = {
    "whole windows": (
        lambda rows: hourly(rows, "shop"),
        {**TUMBLING, "column": "window", "field": "start", "holds": "start"},
    ),
    "sliding, shifted, by their starts": (
        lambda rows: (
            marked(rows)
            .groupBy(F.window("at", "90 minutes", "30 minutes", "5 minutes"))
            .count()
            .select(F.col("window.end").alias("e"), F.col("window.start").alias("s"), "count")
        ),
        {
            "length_us": 3 * HOUR_US // 2,
            "slide_us": HOUR_US // 2,
            "offset_us": HOUR_US // 12,
            "column": "s",
            "holds": "start",
        },
    ),
    "that do not fit into one another": (
        lambda rows: marked(rows).groupBy(F.window("at", "5 hours", "2 hours")).count(),
        {
            "length_us": 5 * HOUR_US,
            "slide_us": 2 * HOUR_US,
            "offset_us": 0,
            "column": "window",
            "field": "start",
            "holds": "start",
        },
    ),
    "by their ends": (
        lambda rows: hourly(rows).select(F.col("window.end").alias("until"), "count"),
        {**TUMBLING, "column": "until", "holds": "end"},
    ),
    "a query with a condition on groups": (
        by_query,
        {**TUMBLING, "column": "hour", "holds": "start", "is_selective": True},
    ),
    "of selected, renamed, joined rows": (
        lambda rows: (
            marked(
                rows.filter("id > 1")
                .join(shops(rows), "shop", "left")
                .select(F.col("at").alias("moment"), "town")
                .withColumnRenamed("moment", "at")
            )
            .withColumn("w", F.window("at", "1 hour"))
            .groupBy("w", "town")
            .count()
            .withColumnRenamed("w", "hour")
        ),
        {**TUMBLING, "column": "hour", "field": "start", "holds": "start"},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_windows_are_found(rows: DataFrame, name: str) -> None:
    transform, found = FOUND[name]
    assert event_windows(transform(rows), rows, "at") == EventWindows.model_validate(found)


REFUSED: dict[str, tuple[Transform, str]] = {
    "sessions": (
        lambda rows: marked(rows).groupBy(F.session_window("at", "1 hour")).count(),
        "a session may be of any length",
    ),
    "no watermark": (
        lambda rows: rows.groupBy(F.window("at", "1 hour")).count(),
        "without a watermark on `at` no window ever ends",
    ),
    "a watermark of another time": (
        lambda rows: (
            rows.withWatermark("other", "1 hour").groupBy(F.window("at", "1 hour")).count()
        ),
        "without a watermark on `at`",
    ),
    "no windows": (
        lambda rows: rows.groupBy("shop").count(),
        "it does not group rows by one `window(…)`",
    ),
    "hours of its own": (
        lambda rows: marked(rows).groupBy(F.date_trunc("hour", "at").alias("hour")).count(),
        "it does not group rows by one `window(…)`",
    ),
    "another time": (
        lambda rows: (
            rows.withWatermark("other", "1 hour").groupBy(F.window("other", "1 hour")).count()
        ),
        "its windows are of another time than `at`",
    ),
    "a time that it changes": (
        lambda rows: hourly(rows.withColumn("at", F.expr("at + interval 1 day"))),
        "its windows are of another time than `at`",
    ),
    "rows of two branches": (
        lambda rows: hourly(rows.unionByName(rows.withColumn("at", F.col("other")))),
        "its windows are of another time than `at`",
    ),
    "windows that the table does not have": (
        lambda rows: hourly(rows).select(F.to_date("window.start").alias("day"), "count"),
        "none of its columns is the start or the end of a window",
    ),
    "grouping sets": (
        lambda rows: marked(rows).cube(F.window("at", "1 hour"), "shop").count(),
        "it does not group rows by one `window(…)`",
    ),
    "deduplication": (
        lambda rows: marked(rows).dropDuplicates(["id", "at"]),
        "it keeps rows seen by id, at",
    ),
    "windows of deduplicated rows": (
        lambda rows: hourly(marked(rows).dropDuplicatesWithinWatermark(["id"])),
        "it keeps rows seen within the watermark by id; count(1) by window(at",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_range_can_not_be_told_by_is_refused_with_the_reason(
    rows: DataFrame, name: str
) -> None:
    transform, why = REFUSED[name]
    with pytest.raises(NoWindowsError) as caught:
        event_windows(transform(rows), rows, "at")
    assert why in str(caught.value)
