"""Keys of history for the seam filter: looked up once, however many ask for them at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sources.storage.folder import Folder
from spark_jobs.inside.query.seam.duplicate_filters import KeyColumns, KeyFilter

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_history_is_read_once_for_those_who_ask_at_the_same_time(
    tmp_path: Path, spark: SparkSession
) -> None:
    reads = tmp_path / "reads"
    reads.mkdir()

    def counted(rows):  # type: ignore[no-untyped-def]
        import uuid  # noqa: PLC0415 - it runs in a worker

        (reads / uuid.uuid4().hex).touch()
        yield from rows

    def history() -> DataFrame:
        rows = spark.range(100).selectExpr("id", "timestamp_seconds(id) AS at").coalesce(1)
        return rows.mapInArrow(counted, rows.schema)

    def keep(_: int) -> int:
        columns = KeyColumns(["id"], [], "at")
        return (
            KeyFilter(Folder(tmp_path / "keys"), history(), columns, keys_from_ms=90_000)
            .keep()
            .rows
        )

    with ThreadPoolExecutor(2) as both:
        assert list(both.map(keep, range(2))) == [10, 10]
    assert len([*reads.iterdir()]) == 1
