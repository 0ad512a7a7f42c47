"""Records with a key and no value: refused, left out, or the delete of the row of their key."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.parse_records import parse_values
from tests.e2e.case import Case, live_of, moment, wrong
from tests.e2e.in_session import fails_with, run_and_audit, run_chain, run_history

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "v", "type": ["null", "double"]},
    ],
}
COLUMNS = {"gone": "boolean", "id": "bigint", "at": "timestamp", "v": "double"}


def deletes(document: dict[str, Any]) -> None:
    """Let the pipeline merge, and records without a value delete rows."""
    history, live = document["sources"]
    columns = {"id": "id", "at": "at", "v": "v", "gone": "CAST(false AS BOOLEAN)"}
    history["select"] = columns
    live |= {"on_tombstone": "delete", "include": {"gone": "tombstone"}}
    document["sink"] |= {"mode": "merge", "sequence": "at", "deleted": "gone"}


def send(case: Case, *records: tuple[str, bytes | None, int]) -> None:
    """Write keys and values at the times of events."""
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for key, value, at in records:
        at_ms = int(moment(at).timestamp() * 1000)
        producer.produce(case.topic, value, key, partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0


def computes(document: dict[str, Any]) -> None:
    """The same, with columns that `select` computes."""
    deletes(document)
    live = document["sources"][1]
    live["schema"] = {"id": "bigint", "at": "timestamp", "v": "double"}
    live["select"] = {"id": "id", "at": "at", "v": "CAST(v + 0 AS DOUBLE)", "gone": "gone"}


@pytest.mark.parametrize("declare", [deletes, computes])
def test_rows_of_files_and_topic_are_deleted_and_the_audit_agrees(
    tmp_path: Path, servers: str, spark: SparkSession, declare: Callable[[dict[str, Any]], None]
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(100))
    case.produce(range(100, 150), key=str)
    again = json.dumps({"id": 7, "at": f"{moment(160):%Y-%m-%dT%H:%M:%SZ}", "v": 1.5}).encode()
    # Of history, with another value later; of the topic; of a row that never was.
    send(case, ("7", None, 150), ("8", None, 151), ('{"id": 120}', None, 152), ("999", None, 153))
    send(case, ("7", again, 160))
    loaded = case.pipeline(declare)
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (148, {})
    assert report.ok
    table = DeltaTable(loaded.target.url).to_pyarrow_table()
    assert "gone" not in table.column_names
    found = dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert found == {n: n / 2 for n in range(150) if n not in (8, 120)} | {7: 1.5}


@pytest.mark.parametrize("is_bounded", [False, True], ids=["followed", "range"])
def test_tasks_that_append_records_themselves_refuse_it_too(
    tmp_path: Path, servers: str, spark: SparkSession, is_bounded: bool
) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(400), key=str)
    # Behind the sample of the plan.
    send(case, ("7", None, 400))

    def edit(document: dict[str, Any]) -> None:
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        live = document["sources"][1]
        live |= {"start": "earliest", "schema": columns, "on_bad_record": "drop"}
        if is_bounded:
            live["until"] = "latest"
        # Without history there is no seam, in which Spark has to see the rows.
        document["sources"] = [live]

    loaded = case.pipeline(edit)
    with fails_with("offset 400: the record has a key and no value"):
        run_history(spark, loaded) if is_bounded else run_chain(spark, loaded)


@pytest.mark.parametrize("value_format", ["json", "avro"])
class TestABatchOfRecords:
    @pytest.fixture
    def read(self, tmp_path: Path, servers: str, spark: SparkSession, value_format: str) -> Any:
        case = Case(tmp_path, servers)
        (tmp_path / "event.avsc").write_text(json.dumps(AVRO))

        def rows(**declared: Any) -> list[Any]:
            def edit(document: dict[str, Any]) -> None:
                if declared.get("on_tombstone") == "delete":
                    deletes(document)
                live = document["sources"][1]
                live |= declared
                if value_format == "avro":
                    live |= {"format": "avro", "avro_schema": "event.avsc"}

            loaded = case.pipeline(edit)
            generation = loaded.open_generation(create=True)
            assert generation is not None
            source = live_of(loaded)
            columns = {n: k for n, k in COLUMNS.items() if n != "gone" or source.include}
            check = EventTimeCheck(loaded.pipeline.event_time)
            raw = self.raw(spark, value_format)
            return parse_values(raw, source, columns, generation, check).select(*columns).collect()

        return rows

    def raw(self, spark: SparkSession, value_format: str) -> Any:
        at = datetime(2024, 1, 1, tzinfo=UTC)
        data = BytesIO()
        schema = fastavro.parse_schema(AVRO)
        fastavro.schemaless_writer(data, schema, {"id": 1, "at": at, "v": 0.5})
        as_json = b'{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 0.5}'
        value = data.getvalue() if value_format == "avro" else as_json
        later = at.replace(hour=1)
        records = [("t", 0, 0, at, b"1", value), ("t", 0, 1, later, b"1", None)]
        kinds = (
            "topic string, partition int, offset long, timestamp timestamp, "
            "key binary, value binary"
        )
        return spark.createDataFrame(records, kinds)

    @pytest.mark.parametrize("policy", ["fail", "drop"])
    def test_it_is_refused_whatever_becomes_of_bad_records(self, read: Any, policy: str) -> None:
        with pytest.raises(Exception, match="offset 1: the record has a key and no value") as told:
            read(on_bad_record=policy)
        assert "on_tombstone: delete" in str(told.value)

    def test_it_is_left_out(self, read: Any) -> None:
        assert [row.id for row in read(on_tombstone="ignore")] == [1]

    @pytest.mark.parametrize("policy", ["fail", "drop"])
    def test_it_is_a_delete_at_its_timestamp(self, read: Any, policy: str) -> None:
        good, gone = read(on_tombstone="delete", on_bad_record=policy)
        assert (good.gone, good.id, good.v) == (False, 1, 0.5)
        assert (gone.gone, gone.id, gone.v) == (True, 1, None)
        assert gone.at - good.at == good.at.replace(hour=1) - good.at.replace(hour=0)
