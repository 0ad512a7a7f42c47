"""What becomes of changes that a snapshot of the database can see."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from sources.common.database_snapshot import PostgresSnapshot
from sources.decoding.record_columns import EnvelopePart
from spark_jobs.inside.query.seam.driver_filter import DriverFilter
from spark_jobs.inside.query.seam.duplicate_filters import IS_NEW, SnapshotFilter

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

SNAPSHOT = PostgresSnapshot(lsn=500, xmin=70, xmax=75, in_progress=[70, 72], taken_ms=0)
COLUMNS: dict[EnvelopePart, str] = {"lsn": "_lsn", "transaction": "_tx", "position": "_position"}
FIRST = "0" * 32


def changes(spark: SparkSession, *rows: tuple[int, int | None, str]) -> DataFrame:
    """Log position, transaction, and position of each change."""
    placed = [("orders", 0, offset, *row) for offset, row in enumerate(rows)]
    schema = "__topic string, __partition int, __offset bigint, _lsn bigint, _tx bigint"
    return spark.createDataFrame(placed, f"{schema}, _position string")


def test_the_snapshot_filter_drops_exactly_the_changes_in_the_snapshot(spark: SparkSession) -> None:
    rows = changes(
        spark,
        (400, 69, "a"),
        (401, 70, "b"),  # in flight
        (402, 71, "c"),
        (403, 75, "d"),  # begun later
        (501, 71, "e"),  # a transaction id that came around again
        (300, None, FIRST),  # of the connector's own snapshot, which is older
        (600, None, f"{FIRST[:-1]}1"),  # of an incremental one
    )
    seam = SnapshotFilter(COLUMNS, SNAPSHOT)
    kept = seam.mark(rows).where(IS_NEW).orderBy("__offset").collect()
    assert [row["__offset"] for row in kept] == [1, 3, 4, 6]
    # The driver removes the same ones of those that it has in memory.
    (batch,) = rows.orderBy("__offset").toArrow().combine_chunks().to_batches()
    in_driver = DriverFilter.of(seam, batch.schema)
    assert in_driver is not None
    found = in_driver.new(batch)
    assert found is not None
    assert found.column("__offset").to_pylist() == [1, 3, 4, 6]


def test_a_connector_that_begins_anew_stops_the_run(spark: SparkSession) -> None:
    rows = changes(spark, (501, 90, "a"), (600, None, FIRST))
    with pytest.raises(Exception, match=r"offset 1: the connector has taken a snapshot of its own"):
        SnapshotFilter(COLUMNS, SNAPSHOT).mark(rows).where(IS_NEW).collect()
