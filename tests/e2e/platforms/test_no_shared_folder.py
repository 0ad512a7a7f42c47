"""A cluster whose workers share nothing with the driver but a bucket and the broker."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from sources.common.cache import cache_folder
from tests.e2e.case import TRANSFORMS, Case, run_through, windows, wrong
from tests.services.lake import BUCKET, lake
from tests.services.s3_server import client
from tests.services.small_disk import require_mounts
from tests.services.standalone import standalone

HELPER = "def later(number):\n    return number + 1\n"
MODULE = """
def shifted(batches):
    # Imported by executors, from a package beside the pipeline's file.
    from helpers.shift import later
    for batch in batches:
        assert later(1) == 2
        yield batch

def shifted_hourly(rows):
    return hourly(rows.mapInArrow(shifted, rows.schema))
"""


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
def test_workers_that_see_no_file_of_the_driver_build_the_same_table(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_mounts()
    own, others = tmp_path / "driver", tmp_path / "others"
    for folder in (own / "tmp", own / "cache", own / "helpers", others):
        folder.mkdir(parents=True)
    (own / "cache" / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("HYBRID_CACHE", str(own / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(own / "tmp"))
    with lake("s3", others) as move, standalone(others, hidden=own) as cluster:
        case = Case(own, servers, partitions=2)
        (own / "helpers" / "shift.py").write_text(HELPER)
        (own / "transforms.py").write_text(TRANSFORMS + MODULE)
        case.write_history(range(600))
        case.produce(range(500, 900))

        def on_the_cluster(document: dict[str, Any]) -> None:
            windows(document)
            move(document)
            store = client(document["s3"]["endpoint"])
            for file in (own / "in").iterdir():
                store.upload_file(str(file), BUCKET, f"in/{file.name}")
                file.unlink()
            document["sources"][0]["path"] = f"s3://{BUCKET}/in/*.parquet"
            document["transform"] = "transforms:shifted_hourly"
            document["spark"]["master"] = cluster.url
            document["spark"]["conf"] |= {
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
                "spark.databricks.delta.snapshotPartitions": "1",
                "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            }

        report = run_through(case.pipeline(on_the_cluster))
        assert (report.expected > 0, wrong(report)) == (True, {})
