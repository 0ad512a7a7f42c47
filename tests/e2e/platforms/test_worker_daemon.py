"""Python workers find what our tasks import loaded, as their daemon has loaded it once."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

_TASKS_IMPORT = ("pyarrow", "pydantic", "spark_jobs.inside.readers.topics.direct_records")


def test_a_worker_has_loaded_all_modules_before_its_first_task(spark: SparkSession) -> None:
    def missing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            names = [name for name in _TASKS_IMPORT if name not in sys.modules]
            # A worker that has run a task of another test may have loaded them itself.
            daemon = "spark_jobs.inside.worker_daemon"
            begun = sys.modules["__main__"].__spec__
            is_ours = begun is not None and begun.name == daemon
            yield pa.RecordBatch.from_pydict({"missing": [*names, *([] if is_ours else [daemon])]})

    missing.__module__ = "__main__"
    rows = spark.range(1).mapInArrow(missing, "missing string").collect()
    assert [row[0] for row in rows] == []
