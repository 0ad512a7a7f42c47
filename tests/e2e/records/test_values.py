"""Topics whose records are no JSON: the same chain, proved by the same audit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.plan import make_plan
from tests.e2e.case import TOPIC, Case, as_json, moment, wrong
from tests.e2e.in_session import fails_with, run_chain, run_live
from tests.extensions import needs
from tests.sources.decoding.value_case import (
    MESSAGE,
    RegistryServer,
    descriptors,
    framed,
    order_class,
    registry,
)

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
FIELDS = [{"name": "id", "type": "long"}, {"name": "at", "type": ["null", INSTANT]}]
# The second writer added a field in front and widened one.
FIRST = {"type": "record", "name": "Event", "fields": [*FIELDS, {"name": "v", "type": "float"}]}
SECOND = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "more", "type": "string"}, *FIELDS, {"name": "v", "type": "double"}],
}
SECRET = "hunter2-of-the-registry"
BAD = [b"\0\0\0\0\1\2", b"no frame", None]


def send(
    case: Case,
    numbers: range,
    value: Callable[[int], bytes],
    bad: list[bytes | None] | None = None,
    **more: Any,
) -> None:
    """Events in order; then values that are bad."""
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    values = [(int(moment(n).timestamp() * 1000), value(n)) for n in numbers]
    for time_ms, data in [*values, *((1704200000000, each) for each in bad or [])]:
        producer.produce(case.topic, data, partition=0, timestamp=time_ms, **more)
    assert producer.flush(30) == 0


def held(loaded: LoadedPipeline, path: str) -> list[dict[str, Any]]:
    table = DeltaTable(loaded.locate(path)).to_pyarrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def test_avro_is_read_with_the_schemas_of_the_registry(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    server: RegistryServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.login = f"me:{SECRET}"
    monkeypatch.setenv("REGISTRY_PASSWORD", SECRET)
    case = Case(tmp_path, servers)
    case.write_history()
    schemas = [fastavro.parse_schema(schema) for schema in (FIRST, SECOND)]
    ids = [server.register(schema) for schema in (FIRST, SECOND)]

    def avro(n: int) -> bytes:
        out = BytesIO()
        row = {"id": n, "at": moment(n), "v": n / 2, "more": "x"}
        fastavro.schemaless_writer(out, schemas[n % 2], row)
        return framed(ids[n % 2], out.getvalue())

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(
            format="avro",
            registry={"url": server.url, "username": "me", "password": "${REGISTRY_PASSWORD}"},
            on_bad_record="quarantine",
            quarantine="bad",
        )

    loaded = case.pipeline(edit)
    send(case, range(500, 1200), avro, BAD)
    run_chain(spark, loaded)
    send(case, range(1200, 1300), avro, [framed(9, b"")])
    run_live(spark, loaded, lambda beat: beat.bad_records == 4)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1300, {})
    assert report.ok
    assert {row["value"]: row["reason"] for row in held(loaded, "bad")} == {
        BAD[0]: "the value does not match its Avro schema: EOFError: ",
        BAD[1]: (
            "there is no schema id in front of the value: it starts with 6e6f206672 "
            "(hexadecimal), and does not begin with a byte 00 and four bytes of the id"
        ),
        BAD[2]: "the record has no value",
        framed(9, b""): f"the registry has no schema 9 ({server.url})",
    }
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in data for data in kept)


def test_a_record_that_does_not_decode_is_told_while_planning(
    tmp_path: Path, servers: str, server: RegistryServer
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 510))
    avro: dict[str, Any] = {"format": "avro", "registry": {"url": server.url}}
    with pytest.raises(
        InputError, match=f"`{case.topic}`, partition 0, offset 0: there is no schema id"
    ):
        make_plan(case.pipeline(lambda document: document["sources"][1].update(avro)))
    (tmp_path / "event.avsc").write_text(json.dumps({**FIRST, "fields": FIELDS}))
    send(case, range(0), lambda _: b"")
    fixed: dict[str, Any] = {"format": "avro", "avro_schema": "event.avsc"}
    with pytest.raises(
        InputError, match="partition 0, offset 0: the value does not match its Avro"
    ):
        make_plan(case.pipeline(lambda document: document["sources"][1].update(fixed)))


def test_a_column_that_avro_has_in_another_type_is_shown_side_by_side(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    fields = [{"name": "id", "type": "string"}, {"name": "v", "type": "float"}]
    schema = {"type": "record", "name": "Event", "fields": fields}
    (tmp_path / "event.avsc").write_text(json.dumps(schema))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": "seven", "v": 1.5})
    send(case, range(500, 501), lambda _: out.getvalue())
    fixed: dict[str, Any] = {"format": "avro", "avro_schema": "event.avsc"}
    with pytest.raises(InputError) as caught:
        make_plan(case.pipeline(lambda document: document["sources"][1].update(fixed)))
    rows = [[cell.strip() for cell in row.split("|")] for row in caught.value.message.splitlines()]
    assert rows[2:] == [
        ["id", "bigint", "such as 'seven'"],
        ["at", "timestamp", "(missing)"],
    ]


@needs("protobuf")
@pytest.mark.parametrize("wire_format", ["plain", "confluent"])
def test_protobuf_is_read_by_its_descriptor(
    tmp_path: Path, servers: str, spark: SparkSession, wire_format: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    (tmp_path / "shop.desc").write_bytes(descriptors())
    kind = order_class()

    def protobuf(n: int) -> bytes:
        made: Any = kind(id=n, v=n / 2)
        made.at.FromDatetime(moment(n))
        data: bytes = made.SerializeToString()
        return framed(1, data, b"\x02\x02") if wire_format == "confluent" else data

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(
            format="protobuf",
            descriptor="shop.desc",
            message=MESSAGE,
            wire_format=wire_format,
            on_bad_record="drop",
        )

    loaded = case.pipeline(edit)
    send(case, TOPIC, protobuf, [b"\xff", None])
    run_chain(spark, loaded, lambda beat: beat.bad_records == 2)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok
    assert [(line.found, line.counted) for line in report.bad_records] == [(2, 2)]


@needs("protobuf")
def test_a_bad_record_that_a_worker_finds_stops_the_stream_by_its_place(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    (tmp_path / "shop.desc").write_bytes(descriptors())
    kind = order_class()

    def protobuf(n: int) -> bytes:
        made: Any = kind(id=n, v=n / 2)
        made.at.FromDatetime(moment(n))
        data: bytes = made.SerializeToString()
        return data

    declared = {"format": "protobuf", "descriptor": "shop.desc", "message": MESSAGE}
    loaded = case.pipeline(lambda document: document["sources"][1].update(declared))
    send(case, range(500, 1200), protobuf, [b"\xff"])
    told = f"Topic `{case.topic}`, partition 0, offset 700: the value is not a valid `{MESSAGE}`"
    with fails_with(told):
        run_chain(spark, loaded)


RAW_TRANSFORM = """
from pyspark.sql import functions as F

def taken_apart(rows):
    return rows.select(
        "id", "at", "topic", "part", "value",
        F.element_at("headers", 1)["key"].alias("name"),
        F.element_at("headers", 1)["value"].alias("content"),
    )
"""
RAW_SQL = """
SELECT "id", "at", topic, part, "value", headers[1]['key'] AS name, headers[1]['value'] AS content
FROM input
"""


def test_raw_values_arrive_with_what_their_records_say(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "apart.py").write_text(RAW_TRANSFORM)
    (tmp_path / "apart.sql").write_text(RAW_SQL)
    include = {"id": "offset", "at": "timestamp", "topic": "topic", "part": "partition"}

    def edit(document: dict[str, Any]) -> None:
        live = {
            **document["sources"][1],
            "start": "earliest",
            "format": "raw",
            "include": {**include, "headers": "headers", "key": "key"},
        }
        document.update(
            sources=[live], transform="apart:taken_apart", audit={"sql": "apart.sql"}, key=[]
        )

    loaded = case.pipeline(edit)
    send(case, range(100), lambda n: bytes([0, n, 255]), headers=[("trace", b"\xfe"), ("x", None)])
    run_chain(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (100, {})
    assert report.ok
    row = next(row for row in held(loaded, "out") if row["id"] == 7)
    assert row == {
        "id": 7,
        "at": moment(7),
        "topic": case.topic,
        "part": 0,
        "value": b"\x00\x07\xff",
        "name": "trace",
        "content": b"\xfe",
    }


def test_a_key_may_be_a_column_of_history_and_topic(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "in").mkdir()
    history = {
        "id": pa.array(range(1000), pa.int64()),
        "at": pa.array([moment(n) for n in range(1000)], pa.timestamp("us", "UTC")),
        "v": pa.array([n / 2 for n in range(1000)], pa.float64()),
        "name": pa.array([f"key {n}" for n in range(1000)]),
    }
    pq.write_table(pa.table(history), tmp_path / "in" / "0.parquet")

    def edit(document: dict[str, Any]) -> None:
        document["key"] = ["name"]
        document["sources"][1].update(include={"name": "key"}, on_bad_record="quarantine")

    loaded = case.pipeline(edit)
    case.produce(range(500, 1100), key=lambda n: f"key {n}")
    send(case, range(1100, 1101), lambda n: as_json(n).encode(), key=b"\xff")
    run_chain(spark, loaded, lambda beat: beat.bad_records == 1)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1100, {})
    assert report.ok
    path = str(loaded.require_generation().path("quarantine/live"))
    assert [row["reason"] for row in held(loaded, path)] == ["the key is no UTF-8 text"]
