"""Another length of windows, computed from the table of short ones in place of all raw input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline, load_pipeline
from tests.e2e.case import SMALL, wrong
from tests.e2e.in_session import run_history, run_live
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

MINUTES = """
SELECT window.start AS begin, id % 3 AS shop,
    count(*) AS n, sum(id) AS total, min(v) AS low, max(v) AS high
FROM input GROUP BY window(at, '10 minutes'), id % 3
"""
HOURS = """
SELECT window.start AS hour, shop,
    sum(n) AS n, sum(total) AS total, min(low) AS low, max(high) AS high
FROM input GROUP BY window(begin, '1 hour'), shop
"""
EXPECTED = """
SELECT time_bucket(INTERVAL 1 hour, "at") AS hour, id % 3 AS shop,
    count(*) AS n, sum(id) AS total, min(v) AS low, max(v) AS high
FROM rows WHERE id < {closing} GROUP BY ALL
"""
COLUMNS = "hour, shop, n, total, low, high"
# Two days later than the others, so that all windows before it end.
CLOSING = 5000


def declare(folder: Path, name: str, **document: Any) -> LoadedPipeline:
    common = {"name": name, "state": "state", "spark": {"conf": dict(SMALL)}}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(common | document))
    return load_pipeline(path)


def short_ones(folder: Path, length: str) -> LoadedPipeline:
    """Files, then a folder that fills, into windows of ten minutes, each once when it has ended."""
    (folder / "minutes.sql").write_text(MINUTES)
    files = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
    inbox: dict[str, Any] = {"name": "inbox", "type": "files", "path": "inbox", "format": "json"}
    inbox |= {"schema": {"id": "bigint", "at": "timestamp", "v": "double"}}
    return declare(
        folder,
        "minutes",
        event_time="at",
        key=["id"],
        sources=[files, {**inbox, "discovery_interval": length}],
        transform={"sql": "minutes.sql", "watermark": {"column": "at", "delay": "10 minutes"}},
        sink={"path": "minutes", "mode": "append", "key": ["begin", "shop"]},
    )


def longer_ones(folder: Path) -> LoadedPipeline:
    """That table, followed, into windows of an hour."""
    (folder / "hours.sql").write_text(HOURS)
    table = {"name": "minutes", "type": "table", "pipeline": "minutes.yaml"}
    return declare(
        folder,
        "hours",
        event_time="begin",
        key=["begin", "shop"],
        sources=[{**table, "discovery_interval": "100 ms"}],
        transform={"sql": "hours.sql", "watermark": {"column": "begin", "delay": "10 minutes"}},
        sink={"path": "hours", "mode": "merge", "key": ["hour", "shop"]},
    )


def test_longer_windows_of_a_followed_table_of_short_ones_equal_those_of_all_raw_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = TwoPipelines(tmp_path)
    case.write_thousand()
    minutes = short_ones(tmp_path, "100 ms")
    run_history(spark, minutes)
    run_live(spark, minutes)
    hours = longer_ones(tmp_path)
    run_history(spark, hours)
    run_live(spark, hours)
    # What comes later reaches it by commits of the other table.
    case.arrive(range(1000, 1200))
    case.arrive([CLOSING])
    # Windows that have ended come with the micro-batch after the one that ends them.
    run_live(spark, minutes, lambda _: DeltaTable(minutes.target.url).count() == 360)
    run_live(spark, hours)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = "{'id': 'BIGINT', 'at': 'TIMESTAMPTZ', 'v': 'DOUBLE'}"
        raw = (
            f"SELECT id, \"at\", v FROM read_parquet('{tmp_path}/in/*.parquet') UNION ALL "
            f"SELECT id, \"at\", v FROM read_json('{tmp_path}/inbox/*.json', columns={columns})"
        )
        connection.execute(f"CREATE TABLE rows AS {raw}")
        found = DeltaTable(hours.target.url).to_pyarrow_table()
        connection.register("found", found)
        expected = EXPECTED.format(closing=CLOSING)
        different = connection.sql(
            f"(({expected}) EXCEPT ALL SELECT {COLUMNS} FROM found) UNION ALL "
            f"(SELECT {COLUMNS} FROM found EXCEPT ALL ({expected}))"
        ).fetchall()
    assert (different, len(found)) == ([], 60)
    report = audit(hours)
    assert (wrong(report), report.ok) == ({}, True)
