"""Several inputs joined over history and stream, compared with DuckDB's join of all raw input."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import create_topic
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, run_chain
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, StateError
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.hybrid import Boundedness
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from tests.e2e.case import SMALL, kill_driver, live_of, moment, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

TRANSFORMS = """
from pyspark.sql import functions as F

WITHIN = "order_id = paid_id AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 HOURS"

def _orders(rows):
    rows = rows.withWatermark("at", "1 hour")
    return rows.select(F.col("id").alias("order_id"), F.col("at").alias("ordered_at"))

def _payments(rows):
    rows = rows.withWatermark("at", "1 hour")
    return rows.select("payment_id", F.col("id").alias("paid_id"), F.col("at").alias("paid_at"))

def paid(orders, payments):
    return _orders(orders).join(_payments(payments), F.expr(WITHIN)).drop("paid_id")

def left_outer(orders, payments):
    return _orders(orders).join(_payments(payments), F.expr(WITHIN), "left_outer").drop("paid_id")

def right_outer(orders, payments):
    return _orders(orders).join(_payments(payments), F.expr(WITHIN), "right_outer").drop("paid_id")

def swapped(orders, payments):
    return _payments(payments).join(_orders(orders), F.expr(WITHIN)).drop("paid_id")

def twice(orders, payments):
    return paid(orders, payments).join(
        _orders(orders).withColumnRenamed("order_id", "again").drop("ordered_at"),
        F.expr("again = order_id"),
    ).drop("again")

def alone(orders, payments):
    return _orders(orders)
"""
QUERY = """
WITH o AS (SELECT id AS order_id, at AS ordered_at FROM orders),
    p AS (SELECT payment_id, id AS paid_id, at AS paid_at FROM payments)
SELECT order_id, ordered_at, payment_id, paid_at FROM o JOIN p
ON order_id = paid_id AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 HOURS
"""
LAST = 5000  # minute of the rows by which the watermark passes all others
# What an outer join makes of all rows but those last ones.
OUTER = {
    kind: QUERY.replace(" JOIN ", f" {side} JOIN ") + f"WHERE {side_time} < TIMESTAMPTZ '{{last}}'"
    for kind, side, side_time in (
        ("left_outer", "LEFT", "ordered_at"),
        ("right_outer", "RIGHT", "paid_at"),
    )
}


def orders(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [{"id": n, "at": moment(n)} for n in numbers]


def payments(minutes: range) -> list[dict[str, Any]]:
    """Payments within some minutes, of orders up to three hours before: some too late to count."""
    every = [(n, n + 7 * n % 180) for n in range(1000) if n % 10]
    found = sorted((at, n) for n, at in every if at in minutes)
    return [{"payment_id": 10 * n, "id": n, "at": moment(at)} for at, n in found]


class Inputs:
    """A pipeline with the inputs orders and payments, in a folder of its own."""

    def __init__(self, folder: Path, servers: str | None = None) -> None:
        self.folder, self.servers = folder, servers
        self.rows: dict[str, list[dict[str, Any]]] = {"orders": [], "payments": []}
        self.topics = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in self.rows}
        (folder / "transforms.py").write_text(TRANSFORMS)
        (folder / "paid.sql").write_text(QUERY)
        (folder / "audit.sql").write_text(in_duckdb(QUERY))
        if servers is not None:
            for topic in self.topics.values():
                create_topic(servers, topic, 2, {"retention.ms": "-1"})

    def archive(self, name: str, rows: list[dict[str, Any]], files: int = 2) -> None:
        """Write rows to Parquet files, in their order."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for at in range(files):
            part = rows[at * len(rows) // files : (at + 1) * len(rows) // files]
            pq.write_table(pa.Table.from_pylist(part, schema(name)), folder / f"{at}.parquet")
        self._add(name, rows)

    def produce(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write rows to the input's topic, by their key's partition."""
        assert self.servers is not None
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for row in rows:
            value = {**row, "at": f"{row['at']:%Y-%m-%dT%H:%M:%SZ}"}
            at_ms = int(row["at"].timestamp() * 1000)
            partition = row["id"] % 2
            producer.produce(
                self.topics[name], json.dumps(value), partition=partition, timestamp=at_ms
            )
        assert producer.flush(30) == 0
        self._add(name, rows)

    def _add(self, name: str, rows: list[dict[str, Any]]) -> None:
        known = {tuple(row.values()) for row in self.rows[name]}
        self.rows[name] += [row for row in rows if tuple(row.values()) not in known]

    def pipeline(self, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> LoadedPipeline:
        keys = {"orders": ["id"], "payments": ["payment_id"]}
        document: dict[str, Any] = {
            "name": "paid",
            "event_time": "at",
            "allowed_lateness": "100 min",
            "inputs": {name: {"sources": self._sources(name), "key": keys[name]} for name in keys},
            "transform": "transforms:paid",
            "sink": {"path": "out", "mode": "append", "key": ["payment_id"]},
            "state": "state",
            "spark": {"conf": dict(SMALL)},
        }
        edit(document)
        path = self.folder / "paid.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return load_pipeline(path)

    def _sources(self, name: str) -> list[dict[str, Any]]:
        old = {
            "name": f"old_{name}",
            "type": "files",
            "format": "parquet",
            "path": f"{name}/*.parquet",
            "batch": {"files": 1},
        }
        new = {
            "name": f"new_{name}",
            "type": "kafka",
            "topic": self.topics[name],
            "bootstrap_servers": self.servers,
            "trigger_interval": "200 ms",
        }
        return [old] if self.servers is None else [old, new]

    def expected(self, query: str = QUERY) -> set[tuple[Any, ...]]:
        """The join of all rows, each counted once, by DuckDB."""
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in self.rows.items():
            connection.register(name, pa.Table.from_pylist(rows, schema(name)))
        return set(connection.execute(in_duckdb(query)).fetchall())

    def found(self) -> list[tuple[Any, ...]]:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("target", DeltaTable(self.folder / "out").to_pyarrow_table())
        names = "order_id, ordered_at, payment_id, paid_at"
        found = connection.execute(f"SELECT {names} FROM target").fetchall()
        return list(map(tuple, found))

    def require_equal(self, query: str = QUERY) -> None:
        found = self.found()
        assert len(found) == len(set(found))
        assert set(found) == self.expected(query)
        assert found


def schema(name: str) -> pa.Schema:
    names = ["id", "at"] if name == "orders" else ["payment_id", "id", "at"]
    kinds = {"at": pa.timestamp("us", "UTC")}
    return pa.schema([(each, kinds.get(each, pa.int64())) for each in names])


def in_duckdb(query: str) -> str:
    """A query with what is a keyword of DuckDB in quotes."""
    return query.replace("at AS", '"at" AS')


def audited(document: dict[str, Any]) -> None:
    document["audit"] = {"sql": "audit.sql"}


def sql(document: dict[str, Any]) -> None:
    document["transform"] = {"sql": "paid.sql", "watermark": {"column": "at", "delay": "1 hour"}}


def test_two_histories_are_joined_as_duckdb_joins_them(tmp_path: Path, spark: SparkSession) -> None:
    case = Inputs(tmp_path)
    case.archive("orders", orders(range(600)))
    # One history ends long before the other.
    case.archive("payments", payments(range(450)))
    loaded = case.pipeline(audited)
    run_history(spark, loaded)
    case.require_equal()
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")
    assert report.input_rows.sources == {
        "old_orders": 600,
        "old_payments": len(payments(range(450))),
    }
    context = PipelineContext.require(loaded)
    # Places are those of the declaration, whichever source was read first.
    last = offset_log.last_committed(context.generation.checkpoint)
    assert last is not None
    offsets = offset_log.offsets_of(context.generation.checkpoint, last)
    assert len(offsets) == 2
    assert all("reservoirVersion" in each for each in offsets)
    DeltaTable(loaded.target.url).delete(f"payment_id = {case.found()[0][2]}")
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({"missing": 1}, "failed")


def hand_over_all(loaded: LoadedPipeline) -> None:
    context = PipelineContext.require(loaded)
    for source in loaded.pipeline.followed:
        assert isinstance(source, KafkaSource)
        hand_over(context, source)
        require_sound(context, source)


@pytest.mark.kafka
def test_a_join_goes_on_over_the_seams_of_both_topics(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Inputs(tmp_path, servers)
    case.archive("orders", orders(range(600)))
    case.archive("payments", payments(range(450)))
    case.produce("orders", orders(range(500, 900)))
    case.produce("payments", payments(range(400, 700)))
    loaded = case.pipeline(audited)
    run_history(spark, loaded)
    hand_over_all(loaded)

    def later() -> None:
        case.produce("payments", payments(range(700, 1200)))
        case.produce("orders", orders(range(900, 1000)))

    beat = run_live(spark, loaded, meanwhile=later)
    case.require_equal()
    assert beat.offsets is not None
    assert {at.topic for at in beat.offsets} == set(case.topics.values())
    generation = loaded.require_generation()
    for source in loaded.pipeline.followed:
        ledger, count = read_ledger(generation, source.name)
        assert ledger is not None
        assert ledger.rule == "key"
        # Rows of both topics were in files, too: neither filter was idle.
        assert count is not None
        assert sum(count.removed.values()) > 0
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")
    # Both partitions of both topics, each by the rows of its own history.
    assert {(line.topic, line.outcome) for line in report.ledger} == {
        (topic, "agrees") for topic in case.topics.values()
    }
    assert sum(line.delivered or 0 for line in report.ledger) > 0


@pytest.mark.kafka
@pytest.mark.parametrize("kind", OUTER)
def test_rows_without_a_partner_come_once_over_both_seams(
    tmp_path: Path, servers: str, spark: SparkSession, kind: str
) -> None:
    case = Inputs(tmp_path, servers)
    query = OUTER[kind].format(last=moment(LAST))
    (tmp_path / "audit.sql").write_text(in_duckdb(query))
    case.archive("orders", orders(range(600)))
    case.archive("payments", payments(range(450)))
    case.produce("orders", orders(range(500, 900)))
    case.produce("payments", payments(range(400, 700)))

    def outer(document: dict[str, Any]) -> None:
        audited(document)
        document["transform"] = f"transforms:{kind}"
        document["sink"]["key"] = ["order_id", "payment_id"]

    loaded = case.pipeline(outer)
    run_history(spark, loaded)
    hand_over_all(loaded)

    def later() -> None:
        case.produce("payments", payments(range(700, 1200)))
        case.produce("orders", orders([*range(900, 1000), LAST]))
        case.produce("payments", [{"payment_id": -1, "id": -1, "at": moment(LAST)}])

    run_live(spark, loaded, lambda _: len(case.found()) == len(case.expected(query)), later)
    case.require_equal(query)
    without = [row for row in case.found() if None in row]
    # On either side of both seams.
    assert {row[1 if kind == "left_outer" else 3] < moment(450) for row in without} == {True, False}
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")


@pytest.mark.kafka
@pytest.mark.crash
def test_a_killed_driver_of_two_topics_leaves_each_joined_row_once(
    tmp_path: Path, servers: str
) -> None:
    case = Inputs(tmp_path, servers)
    case.archive("orders", orders(range(600)))
    case.archive("payments", payments(range(450)))
    case.produce("orders", orders(range(500, 900)))
    case.produce("payments", payments(range(400, 700)))
    loaded = case.pipeline(sql)
    try:
        run_chain(ChainRun(loaded, rest_requested=True))
        context = PipelineContext.require(loaded)
        case.produce("payments", payments(range(700, 1200)))
        kill_driver(loaded)
        case.produce("orders", orders(range(900, 1000)))
        names = ["old_orders", "new_orders", "old_payments", "new_payments"]
        assert [each.source for each in status(loaded).sources] == names
        live_run.resume(context, live_of(loaded))
        wait_until_caught_up(context)
        assert [each.lag for each in status(loaded).sources] == [None, 0, None, 0]
    finally:
        stopped = stopping.stop(loaded)
    assert stopped == ["new_payments"]
    case.require_equal()
    # By the transform's own query, which is an inner join.
    report = audit(loaded)
    assert (wrong(report), report.outcome) == ({}, "passed")


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        ("swapped", "in the order `payments`, `orders`, and they are declared in the order"),
        ("twice", "reads an input more than once"),
        ("alone", "does not read the input `payments`"),
    ],
)
def test_an_order_of_inputs_that_is_not_the_declared_one_is_refused(
    tmp_path: Path, spark: SparkSession, transform: str, told: str
) -> None:
    case = Inputs(tmp_path)
    case.archive("orders", orders(range(60)))
    case.archive("payments", payments(range(60)))
    loaded = case.pipeline(lambda d: d.update(transform=f"transforms:{transform}"))
    with pytest.raises(InputError) as caught:
        run_history(spark, loaded)
    assert told in caught.value.message
    assert not (tmp_path / "out").exists()


def test_swapping_inputs_and_sides_after_the_first_rows_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = Inputs(tmp_path)
    case.archive("orders", orders(range(60)))
    case.archive("payments", payments(range(60)))
    run_history(spark, case.pipeline())

    def swap(document: dict[str, Any]) -> None:
        inputs = document["inputs"]
        document["inputs"] = {name: inputs[name] for name in ("payments", "orders")}
        document["transform"] = "transforms:swapped"

    with pytest.raises(StateError) as caught:
        run_history(spark, case.pipeline(swap))
    assert "`inputs`, `sources` of pipeline `paid` changed" in caught.value.message
    assert Boundedness.BOUNDED is case.pipeline().pipeline.sources[0].boundedness
