"""Records whose event time can't be right, and that no other row is lost by them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from spark_jobs.run_state.heartbeat import describe
from tests.e2e.case import HOURLY_SQL, Case, moment, windows
from tests.e2e.in_session import run_chain, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
FUTURE = datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)
Sent = tuple[int, datetime | None]


def value_of(number: int, at: datetime | None) -> bytes:
    text = None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return json.dumps({"id": number, "at": text, "v": number / 2}).encode()


def send(case: Case, rows: list[Sent]) -> None:
    """Send events, whose record timestamps are right, whatever their event times are."""
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for number, at in rows:
        stamp = int(moment(number).timestamp() * 1000)
        producer.produce(case.topic, value_of(number, at), b"k", partition=0, timestamp=stamp)
    assert producer.flush(30) == 0


def told(numbers: range) -> list[Sent]:
    return [(n, moment(n)) for n in numbers]


def expected_windows(rows: list[Sent]) -> list[tuple[Any, ...]]:
    """What DuckDB makes of all events, each once."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute('CREATE TABLE input (id BIGINT, "at" TIMESTAMPTZ, v DOUBLE)')
        every = [(n, at, n / 2) for n, at in dict(rows).items()]
        connection.executemany("INSERT INTO input VALUES (?, ?, ?)", every)
        found: list[tuple[Any, ...]] = connection.execute(f"{HOURLY_SQL} ORDER BY start").fetchall()
    return found


def table(loaded: LoadedPipeline) -> list[tuple[Any, ...]]:
    rows = DeltaTable(loaded.locate("out")).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_one_record_of_2099_takes_no_row_from_a_windowed_table(
    tmp_path: Path, servers: str, spark: SparkSession, policy: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    # In the seam, and after it; the watermark would be in 2099 from the first of them on.
    send(case, [*told(range(500, 900)), (7000, FUTURE), *told(range(900, 1300))])

    def edit(document: dict[str, Any]) -> None:
        windows(document)
        document["event_time"] = {"column": "at", "outside": policy}
        document["sources"][1]["max_offsets_per_batch"] = 100

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    send(case, [(7001, FUTURE), *told(range(1300, 1500)), (7002, FUTURE)])
    beat = run_live(spark, loaded, lambda beat: beat.outside_records == 3)
    assert table(loaded) == expected_windows(told(range(1500)))
    assert describe(beat).endswith(", 3 records outside of the event-time bounds")
    generation = loaded.require_generation()
    counted = generation.read(bad_count_name("live"), BadRecordCount)
    assert counted is not None
    assert (counted.total, counted.outside) == (0, 3)
    path = generation.path("quarantine/live")
    left_out = DeltaTable(path).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [row["offset"] for row in left_out] == [400, 801, 1002]
    assert {(row["place"], row["partition"], row["kind"]) for row in left_out} == {
        (case.topic, 0, "outside")
    }
    kept = [value_of(n, FUTURE) if policy == "quarantine" else None for n in (7000, 7001, 7002)]
    assert [row["value"] for row in left_out] == kept
    assert [row["timestamp"] for row in left_out] == [moment(n) for n in (7000, 7001, 7002)]
    assert "`at` is 2099-12-31T23:59:59.000Z" in left_out[0]["reason"]
