"""Few records of a topic are one task's work, and what is unknown or many is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.small_batches import SmallBatches

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_a_micro_batch_of_few_records_is_one_task(tmp_path: Path, spark: SparkSession) -> None:
    ends: list[dict[str, int] | None] = [
        None,
        {"0": 100, "1": 50},
        {"0": 2000, "1": 60},
        {"0": 90_000, "1": 60},
        {"0": 90_001, "1": 61, "2": 10},
        {"0": 90_001, "1": 61, "2": 11},
    ]
    (tmp_path / "offsets").mkdir()
    for number, end in enumerate(ends):
        offset = "-" if end is None else json.dumps({"changes": end})
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n-\n{offset}")
    batch = spark.range(100, numPartitions=4)

    def tasks(of: SmallBatches, number: int) -> int:
        return of.in_one_task(batch, number).rdd.getNumPartitions()

    query = SmallBatches(Folder(tmp_path), 1)
    # History; the topic's first records; few; many; those of a new partition; few again.
    assert [tasks(query, number) for number in range(6)] == [4, 4, 1, 4, 4, 1]
    # After a restart nothing says where the first one begins.
    again = SmallBatches(Folder(tmp_path), 1)
    assert [tasks(again, number) for number in (4, 5)] == [4, 1]
