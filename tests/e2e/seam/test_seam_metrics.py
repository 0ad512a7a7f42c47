"""When the counts of a seam that micro-batches report are known to be exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import TopicPartition
from spark_jobs.inside.driver.reports.progress_reports import ProgressReports
from spark_jobs.inside.query.seam.duplicate_filters import IS_NEW
from spark_jobs.inside.query.seam.metrics import SeamMetrics, observe_seam
from spark_jobs.inside.query.seam.rows_in_seam import SeamOffsets
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

FIRST, EMPTY, OTHER = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
STARTS = {FIRST: 10, EMPTY: 7, OTHER: 0}
OFFSETS = SeamOffsets(STARTS, {FIRST: 60, EMPTY: 7, OTHER: 40})
COLUMNS = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint"
BATCHES = 3


def reports(
    spark: SparkSession, folder: Path, write: Callable[[DataFrame], object], step: int = 1
) -> list[dict[str, Any]]:
    """Progress reports of a stream that reads the seam and what is beyond it, in three batches.

    History holds every third row. ``step`` is the distance between two records.
    """
    log = [
        (at.topic, at.partition, offset)
        for at, start in STARTS.items()
        for offset in range(start, start + 90, step)
    ]
    for number in range(BATCHES):
        part = spark.createDataFrame(log[number::BATCHES], COLUMNS).coalesce(1)
        part.write.mode("append").parquet(str(folder / "log"))
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    placed = OFFSETS.mark(stream.parquet(str(folder / "log")))
    marked = placed.withColumn(IS_NEW, F.col(OFFSET) % 3 != 0)

    def write_batch(batch: DataFrame, _: int) -> None:
        write(batch)

    running = (
        observe_seam(marked, OFFSETS)
        .where(IS_NEW)
        .writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    found: list[dict[str, Any]] = []
    ProgressReports().pass_on(running, -1, found.extend)
    assert len(found) == BATCHES
    return found


def metrics(found: list[dict[str, Any]]) -> SeamMetrics:
    made = SeamMetrics()
    made.add(found)
    return made


def twice(batch: DataFrame) -> tuple[int, int]:
    return batch.count(), batch.count()


def test_rows_of_the_seam_are_counted_if_all_micro_batches_have_reported_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = reports(spark, tmp_path, DataFrame.count)
    exact = {FIRST: (50, 34), OTHER: (40, 26)}
    assert metrics(found).by_partition(spark, OFFSETS) == exact
    # A report that is read again changes nothing.
    assert metrics([*found, found[1]]).by_partition(spark, OFFSETS) == exact
    assert metrics(found[1:]).by_partition(spark, OFFSETS) is None
    assert SeamMetrics().by_partition(spark, OFFSETS) is None


@pytest.mark.parametrize(
    ("write", "step"),
    [
        pytest.param(twice, 1, id="each row is evaluated twice"),
        pytest.param(DataFrame.first, 1, id="some rows are not evaluated"),
        pytest.param(DataFrame.count, 2, id="half of the offsets have no record"),
        pytest.param(twice, 2, id="there are as many rows as offsets, but other ones"),
    ],
)
def test_counts_that_may_be_wrong_are_not_used(
    spark: SparkSession, tmp_path: Path, write: Callable[[DataFrame], object], step: int
) -> None:
    found = reports(spark, tmp_path, write, step)
    assert metrics(found).by_partition(spark, OFFSETS) is None
