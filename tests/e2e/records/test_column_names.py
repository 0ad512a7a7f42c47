"""Names of columns with dots, spaces and backticks, in files, topic, key, rules and partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from tests.e2e.case import Case, moment
from tests.e2e.in_session import run_chain

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

ID, AT, VALUE, PART = "user.id", "seen.at", "v `x", "geo.country"
TYPES = {ID: "bigint", AT: "timestamp", VALUE: "double", PART: "string"}


def row(number: int) -> dict[str, Any]:
    return {ID: number, AT: moment(number), VALUE: number / 2, PART: "DE" if number % 2 else "FR"}


def as_json(number: int) -> str:
    return json.dumps({**row(number), AT: moment(number).isoformat()})


def write_parquet(folder: Path) -> None:
    kinds = [pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.string()]
    schema = pa.schema(list(zip(TYPES, kinds, strict=True)))
    pq.write_table(pa.Table.from_pylist([*map(row, range(100))], schema), folder / "a.parquet")


def write_json(folder: Path) -> None:
    (folder / "a.json").write_text("".join(f"{as_json(n)}\n" for n in range(100)))


@pytest.mark.parametrize(("form", "mode"), [("parquet", "append"), ("json", "merge")])
def test_columns_of_any_name_arrive_and_are_proved(
    tmp_path: Path, servers: str, spark: SparkSession, form: str, mode: str
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "in").mkdir()
    {"parquet": write_parquet, "json": write_json}[form](tmp_path / "in")
    producer = Producer({"bootstrap.servers": servers})
    for n in range(80, 150):
        time = int(moment(n).timestamp() * 1000)
        producer.produce(case.topic, as_json(n).encode(), timestamp=time)
    assert producer.flush(30) == 0

    def named(document: dict[str, Any]) -> None:
        history, live = document["sources"]
        history |= {"path": f"in/*.{form}", "format": form}
        if form == "json":
            history["schema"] = live["schema"] = TYPES
        (tmp_path / "audit.sql").write_text("SELECT * FROM input")
        document |= {
            "audit": {"sql": "audit.sql"},
            "event_time": AT,
            "key": [ID],
            "sink": {"path": "out", "mode": mode, "key": [ID], "partition_by": [PART]},
            "rules": {
                "small": {"check": "`v ``x` < 70", "on_violation": "drop"},
                "late": {"check": "`user.id` >= 3", "on_violation": "drop"},
            },
        }

    loaded = case.pipeline(named)
    run_chain(spark, loaded)
    report = audit(loaded)
    assert report.ok, report
    found = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().to_pylist()
    wanted = [row(n) for n in range(3, 140)]
    assert sorted(found, key=lambda each: each[ID]) == wanted


def test_tasks_that_append_rows_themselves_take_any_name(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "in").mkdir()
    write_json(tmp_path / "in")
    producer = Producer({"bootstrap.servers": servers})
    for n in range(80, 150):
        # Some values are left to Spark, and one is bad.
        value = as_json(n) if n % 10 else as_json(n).replace("}", "} ")
        time = int(moment(n).timestamp() * 1000)
        producer.produce(case.topic, value.encode(), timestamp=time)
    producer.produce(case.topic, b"bad", timestamp=time)
    assert producer.flush(30) == 0

    def named(document: dict[str, Any]) -> None:
        history, live = document["sources"]
        history |= {"path": "in/*.json", "format": "json", "schema": TYPES}
        live |= {"schema": TYPES, "on_bad_record": "drop"}
        sink = {"path": "out", "mode": "append", "key": [ID]}
        document |= {"event_time": AT, "key": [ID], "sink": sink}

    loaded = case.pipeline(named)
    run_chain(spark, loaded)
    report = audit(loaded)
    assert report.ok, report
    found = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().to_pylist()
    assert sorted(found, key=lambda each: each[ID]) == [*map(row, range(150))]
