"""History in order of arrival: a backfill computes what the live run would have computed."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from tests.e2e.case import BEGIN, Case
from tests.e2e.in_session import run_chain

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

EVENTS = range(120)
HISTORY = range(60)
# As many events arrive within each minute, so that a micro-batch of the live run is an interval.
AT_ONCE = 10
TRANSFORM = """
from pyspark.sql import functions as F

def hourly(rows):
    return (
        rows.withWatermark("at", "30 minutes").groupBy(F.window("at", "1 hour"))
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"), F.max("arrived").alias("known_at"))
        .select(F.col("window.start").alias("start"), "n", "total", "known_at")
    )
"""


def arrived(n: int) -> datetime:
    """When an event arrives."""
    return BEGIN + timedelta(minutes=n // AT_ONCE, seconds=5 * (n % AT_ONCE))


def happened(n: int) -> datetime:
    """When it happened: each 17th comes late by more than the watermark's delay."""
    late = timedelta(hours=3) if n % 17 == 16 else timedelta(0)
    return BEGIN + timedelta(days=1, minutes=2 * n) - late


def write_history(folder: Path, files: int = 3) -> None:
    """Each file has rows of every interval, as files by device or by hash of a key have."""
    (folder / "in").mkdir()
    for at in range(files):
        part = [n for n in HISTORY if n % files == at]
        columns = {
            "id": pa.array(part, pa.int64()),
            "at": pa.array([happened(n) for n in part], pa.timestamp("us", "UTC")),
            "v": pa.array([float(n) for n in part], pa.float64()),
            "arrived": pa.array([arrived(n) for n in part], pa.timestamp("us", "UTC")),
            "p": pa.array([0] * len(part), pa.int32()),
            "o": pa.array(part, pa.int64()),
        }
        pq.write_table(pa.table(columns), folder / "in" / f"{at}.parquet", row_group_size=16)


def produce(case: Case) -> None:
    """All events in their order of arrival, which is the timestamp of their records."""
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for n in EVENTS:
        value = {"id": n, "at": happened(n).isoformat(), "v": float(n)}
        at_ms = int(arrived(n).timestamp() * 1000)
        producer.produce(case.topic, json.dumps(value).encode(), partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0


def declared(case: Case, folder: Path, *, is_backfilled: bool) -> LoadedPipeline:
    """The same table: live from the first event on, or backfilled up to half of them."""
    folder.mkdir(exist_ok=True)
    case.folder = folder
    (folder / "transforms.py").write_text(TRANSFORM)
    (folder / "all.sql").write_text(
        "SELECT date_trunc('hour', \"at\") AS start, count(*) AS n, sum(v) AS total, "
        "max(arrived) AS known_at FROM input GROUP BY ALL"
    )

    def edit(document: dict[str, Any]) -> None:
        history, live = document["sources"]
        del history["batch"]
        history["order"] = {"arrival": "arrived", "every": "1 min"}
        history["offsets"] = {"partition": "p", "offset": "o"}
        live["include"] = {"arrived": "timestamp", "p": "partition", "o": "offset"}
        live["schema"] = {"id": "bigint", "at": "timestamp", "v": "double"}
        live["max_offsets_per_batch"] = AT_ONCE
        if not is_backfilled:
            live["start"] = "earliest"
            document["sources"] = [live]
        document["transform"] = "transforms:hourly"
        document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}
        document["audit"] = {"sql": "all.sql"}
        document["supervision"] = {"late_rows": {"history": None}}

    return case.pipeline(edit)


def versions(folder: Path) -> dict[datetime, list[tuple[Any, ...]]]:
    """The values that each key had, one after the other."""
    found: dict[datetime, list[tuple[Any, ...]]] = {}
    last = DeltaTable(str(folder / "out")).version()
    for version in range(last + 1):
        table = DeltaTable(str(folder / "out"), version=version).to_pyarrow_table()
        for row in table.to_pylist():
            values = found.setdefault(row["start"], [])
            now = (row["n"], row["total"], row["known_at"])
            if values[-1:] != [now]:
                values.append(now)
    return found


def test_a_backfilled_table_had_the_values_that_live_would_have_had(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    produce(case)
    run_chain(spark, declared(case, tmp_path / "live", is_backfilled=False))
    backfilled = declared(case, tmp_path / "backfilled", is_backfilled=True)
    write_history(tmp_path / "backfilled")
    run_chain(spark, backfilled)

    plan = PipelineContext.require(backfilled).plan
    assert len(plan.files) == 1
    # Three files, each of them in each of the six intervals.
    assert plan.files[0].splits == 18
    expected, found = versions(tmp_path / "live"), versions(tmp_path / "backfilled")
    assert found == expected
    assert max(len(values) for values in found.values()) > 2
    # What was late is in neither: all rows make another table.
    report = audit(backfilled)
    assert (report.unexpected, report.duplicated) == (0, 0)
    assert report.missing + report.different > 1
