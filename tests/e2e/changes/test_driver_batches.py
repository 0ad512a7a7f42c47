"""Small micro-batches of changes that the driver merges itself: the same table as by Spark."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.ordered_changes.spark.small_changes import SmallChanges
from hybrid_extensions.servers.broker import create_topic
from sources.common.positions import TopicPartition
from sources.common.schema import ddl, parse_schema
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from sources.storage.tables.delta import is_delta_table, query_rows
from spark_jobs.inside.readers.topics import driver_records as driver
from spark_jobs.inside.readers.topics.driver_records import driver_records
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import read_topics
from spark_jobs.inside.readers.topics.parse_records import parse_values
from spark_jobs.inside.sink.merging.merge_once import with_user_metadata
from spark_jobs.inside.sink.merging.merge_strategy import declared_merging
from spark_jobs.inside.sink.sink import prepare_table
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.kept_deletes import DELETES
from tests.e2e.case import SMALL
from tests.e2e.in_session import run_history, run_live
from tests.hybrid_extensions.avro import test_envelopes
from tests.hybrid_extensions.cdc.debezium import test_batches
from tests.minimal import minimal_pipeline
from tests.sources.decoding.value_case import ORIGIN, RegistryServer, registry

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
PARTITIONS = 2
BATCH = 60
INCLUDE = {
    "_position": "position",
    "_committed_at": "committed_at",
    "_deleted": "deleted",
    "_unchanged": "unchanged",
    "_written": "timestamp",
    "_offset": "offset",
}
PLACEHOLDER = "__debezium_unavailable_value"
Record = tuple[int, bytes | None, bytes | None]


class Topic:
    """A topic with changes of a table as Debezium writes them, in JSON or in Avro."""

    def __init__(self, servers: str, server: RegistryServer | None) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self.servers = servers
        self._server = server
        if server is not None:
            self._value = fastavro.parse_schema(test_envelopes.schema())
            self._key = fastavro.parse_schema(
                {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
            )
            self._ids = [server.register(each) for each in (test_envelopes.schema(), self._key)]
        create_topic(servers, self.name, PARTITIONS, {"retention.ms": "-1"})

    @property
    def columns(self) -> dict[str, str]:
        return test_batches.KINDS if self._server is None else test_envelopes.COLUMNS

    def row(self, key: int, chance: random.Random) -> dict[str, Any]:
        """A row with values of all types, some of them null."""
        if self._server is not None:
            some = {
                "name": chance.choice(["", "tea", "ä\U0001f600", "x" * 300]),
                "price": Decimal(chance.randrange(-10_000, 10_000)) / 100,
                "wide": {"scale": 3, "value": chance.randbytes(chance.randrange(1, 9))},
                "at": chance.randrange(-(10**15), 10**16),
                "local": chance.randrange(10**12),
                "zoned": "2024-01-01T00:00:00.000002Z",
                "day": (date(9999, 12, 31) - date(1970, 1, 1)).days,
                "raw": chance.randbytes(3),
            }
        else:
            some = {
                "small": chance.randrange(-(2**15), 2**15),
                "name": chance.choice(["", "tea", "ä\U0001f600", 'a":{"b', "x" * 300]),
                "price": chance.choice(["JxA=", "/w==", "AA=="]),
                "at": chance.randrange(-(10**15), 10**15),
                "day": chance.randrange(-10_000, 100_000),
                "raw": chance.choice(["", "AP8="]),
                "paid": chance.random() < 0.5,
                "rate": chance.choice([0.0, -0.0, 0.1, 1e300]),
                "narrow": chance.choice([0.5, -1.25]),
            }
        return {"id": key} | {n: None if chance.random() < 0.2 else v for n, v in some.items()}

    def change(self, op: str, row: dict[str, Any] | None, at: int) -> bytes:
        """The change that a commit at a position made; ``row`` is that after it, or deleted."""
        origin = {**ORIGIN, "lsn": at, "sequence": f'["{at // 3 * 3}","{at}"]'}
        origin["ts_ms"] = 1_704_067_200_000 + at
        sides = {"before": row if op == "d" else None, "after": None if op == "d" else row}
        envelope = {**sides, "source": origin, "op": op}
        if self._server is None:
            return test_batches.written({**envelope, "ts_ms": 1}, has_schema=True)
        return self._framed(0, envelope)

    def key(self, number: int) -> bytes:
        if self._server is None:
            return json.dumps({"id": number}).encode()
        return self._framed(1, {"id": number})

    def _framed(self, which: int, document: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, (self._value, self._key)[which], document)
        return b"\0" + self._ids[which].to_bytes(4) + out.getvalue()

    def changes(self, count: int, chance: random.Random) -> list[Record]:
        """Changes of few keys: deletes, moved keys, repetitions, and some that come too late."""
        made: list[Record] = []
        live: set[int] = set()
        for at in range(1, count + 1):
            key, what = chance.randrange(14), chance.random()
            if what < 0.25 and key in live:
                made += self._gone(key, at, chance)
                live.discard(key)
            elif what < 0.35 and key in live:
                # The key is changed: two changes of one position, in any partitions.
                moved = key + 14
                made += self._gone(key, at, chance)
                made.append((moved % PARTITIONS, self.key(moved), self._update(moved, at, chance)))
                live = live - {key} | {moved}
            else:
                made.append((key % PARTITIONS, self.key(key), self._update(key, at, chance)))
                live.add(key)
            if chance.random() < 0.1:
                # As a connector repeats what it had not confirmed.
                made.append(chance.choice(made))
            if chance.random() < 0.05:
                made.append(made.pop(chance.randrange(len(made))))
        return made

    def _update(self, key: int, at: int, chance: random.Random) -> bytes:
        return self.change("u", self.row(key, chance), at)

    def _gone(self, key: int, at: int, chance: random.Random) -> list[Record]:
        place = key % PARTITIONS, self.key(key)
        return [(*place, self.change("d", self.row(key, chance), at)), (*place, None)]

    def produce(self, records: list[Record]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for partition, key, value in records:
            producer.produce(self.name, value, key, partition=partition)
        assert producer.flush(30) == 0

    def pipeline(self, folder: Path) -> LoadedPipeline:
        """A pipeline that merges the changes into a table."""
        folder.mkdir(exist_ok=True)
        (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
        source = {
            "name": "changes",
            "type": "kafka",
            "topic": self.name,
            "bootstrap_servers": self.servers,
            "format": "debezium",
            "table": "public.orders",
            "schema": self.columns,
            "include": INCLUDE,
            "start": "earliest",
            "trigger_interval": "20 ms",
        }
        if self._server is not None:
            source["registry"] = {"url": self._server.url}
        sink = {"mode": "merge", "key": ["id"], "sequence": "_position", "deleted": "_deleted"}
        return minimal_pipeline(
            folder,
            source,
            event_time="_committed_at",
            sink={"path": "out", **sink, "unchanged": "_unchanged"},
            spark={"conf": dict(SMALL)},
        )


class Table:
    """A table that micro-batches of the topic are merged into, by the driver or by Spark."""

    def __init__(self, folder: Path, spark: SparkSession, topic: Topic) -> None:
        self._spark = spark
        self._topic = topic
        self.loaded = topic.pipeline(folder)
        (self._source,) = self.loaded.pipeline.topics
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self._generation = Generation(Folder(folder / "state"), info)
        self._columns = {**self._source.declared_columns} if self._source.declared_columns else {}
        self._event_time = EventTimeCheck(self.loaded.pipeline.event_time)
        nothing = spark.createDataFrame([], ddl(parse_schema(self._columns)))
        self.target, sink = self.loaded.target, self.loaded.pipeline.sink
        prepare_table(sink, self.target, nothing, self._generation)
        made_of = (self._generation, self._source, self._columns, self._event_time.declared)
        self.reader = driver_records(spark, *made_of, 0)
        merging = declared_merging(self.loaded, self.target, self._generation)
        self._by_driver, self._by_spark = merging.in_driver(nothing), merging.rows
        self.offsets: list[dict[TopicPartition, int]] = []

    def plan(self, ends: dict[int, int]) -> int:
        """Begin a micro-batch as Spark does: its offsets are in the checkpoint."""
        number = len(self.offsets)
        folder = Path(self._generation.checkpoint.url)
        (folder / "offsets").mkdir(parents=True, exist_ok=True)
        (folder / "sources" / "0").mkdir(parents=True, exist_ok=True)
        starts = {self._topic.name: dict.fromkeys(map(str, range(PARTITIONS)), 0)}
        (folder / "sources" / "0" / "0").write_text(f"v1\n{json.dumps(starts)}")
        reached = {self._topic.name: {str(at): end for at, end in ends.items()}}
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_704_067_300_000}
        text = f"v1\n{json.dumps(metadata)}\n{json.dumps(reached)}"
        (folder / "offsets" / str(number)).write_text(text)
        self.offsets.append({TopicPartition(self._topic.name, at): end for at, end in ends.items()})
        return number

    def read(self, number: int) -> pa.RecordBatch | None:
        """What the driver reads of a micro-batch."""
        assert self.reader is not None
        return self.reader.rows(number)

    def by_driver(self, number: int) -> bool:
        """Let the driver read and merge a micro-batch; returns whether it did."""
        rows = self.read(number)
        assert self._by_driver is not None
        return rows is not None and self._by_driver.merge(rows, number, f"batch {number}")

    def by_spark(self, number: int) -> None:
        """Let Spark read and merge a micro-batch."""
        zero = dict.fromkeys(self.offsets[number], 0)
        starts = self.offsets[number - 1] if number else zero
        raw = read_topics(self._spark, self._source, starts, self.offsets[number])
        if raw is None:
            return
        rows = parse_values(raw, self._source, self._columns, self._generation, self._event_time)
        rows = rows.select(*self._columns)
        with with_user_metadata(rows.sparkSession, f"batch {number}"):
            self._by_spark(rows.coalesce(1), number)

    def contents(self) -> tuple[list[str], set[str]]:
        """Rows of the table, and the deletes that are kept."""
        rows = query_rows(DeltaTable(self.target.url), "SELECT * FROM target").read_all()
        kept = self._generation.folder(DELETES)
        there = is_delta_table(kept)
        deletes = DeltaTable(kept.url).to_pyarrow_table().to_pylist() if there else []
        return sorted(map(repr, rows.to_pylist())), {repr(each) for each in deletes}

    def names(self) -> dict[int, str | None]:
        """The name in each row, by its key."""
        rows = query_rows(DeltaTable(self.target.url), "SELECT id, name FROM target").read_all()
        return {row["id"]: row["name"] for row in rows.to_pylist()}

    def said(self) -> dict[int, str | None]:
        """What the commit of each micro-batch says, and that there is one for each."""
        log, number, found = CommitLog(self.target), 0, {}
        while (commit := log.read(number)) is not None:
            if "t" in commit.transactions:
                assert commit.transactions["t"] not in found
                found[commit.transactions["t"]] = commit.user_metadata
            number += 1
        return found


@pytest.fixture(params=["json", "avro"])
def topic(request: pytest.FixtureRequest, servers: str) -> Iterator[Topic]:
    with ExitStack() as stack:
        server = stack.enter_context(registry()) if request.param == "avro" else None
        yield Topic(servers, server)


def test_either_path_and_both_in_turns_make_the_same_table_of_random_changes(
    tmp_path: Path, spark: SparkSession, topic: Topic
) -> None:
    chance = random.Random(f"{topic.columns}")
    changes = topic.changes(200, chance)
    topic.produce(changes)
    tables = {who: Table(tmp_path / who, spark, topic) for who in ("driver", "spark", "turns")}
    reached, merged = dict.fromkeys(range(PARTITIONS), 0), 0
    for begin in range(0, len(changes), BATCH):
        for partition, _, _ in changes[begin : begin + BATCH]:
            reached[partition] += 1
        for who, table in tables.items():
            number = table.plan(reached)
            if who == "spark":
                table.by_spark(number)
            elif who == "driver":
                merged += table.by_driver(number)
                # As after a kill behind the commit; and what came too late is Spark's.
                table.by_spark(number)
            else:
                if chance.random() < 0.5:
                    table.by_driver(number)
                table.by_spark(number)
                table.by_driver(number)
        found = {who: table.contents() for who, table in tables.items()}
        assert found["driver"] == found["spark"]
        assert found["turns"] == found["spark"]
    rows, deletes = found["spark"]
    assert (len(rows) > 5, len(deletes) > 5, merged > 1) == (True, True, True)
    count = len(tables["spark"].offsets)
    for table in tables.values():
        assert table.said() == {number: f"batch {number}" for number in range(count)}


def test_what_only_spark_can_decide_about_is_left_to_it(
    tmp_path: Path, spark: SparkSession, servers: str
) -> None:
    topic, chance = Topic(servers, None), random.Random(5)
    table, count = Table(tmp_path / "p", spark, topic), 0

    def begun(*records: tuple[int, bytes | None]) -> int:
        nonlocal count
        topic.produce([(0, topic.key(key), value) for key, value in records])
        count += len(records)
        return table.plan({0: count, 1: 0})

    def up(key: int, at: int, **row: Any) -> tuple[int, bytes]:
        return key, topic.change("u", {**topic.row(key, chance), **row}, at)

    # A tombstone is no row, and a batch of them alone is recorded.
    assert table.by_driver(begun(up(1, 1, name="a"), (9, None), up(2, 2, name="b")))
    assert table.by_driver(begun((9, None)))
    assert table.said() == {0: "batch 0", 1: "batch 1"}
    # A value that the log lacks; then the row lacks it, until a change has it again.
    lacking = begun(up(1, 3, name=PLACEHOLDER))
    assert table.read(lacking) is not None
    assert not table.by_driver(lacking)
    table.by_spark(lacking)
    after = begun(up(1, 4, name="c"))
    assert not table.by_driver(after)
    table.by_spark(after)
    assert table.by_driver(begun(up(1, 5, name="d")))
    # A delete; and a change that is older than it.
    assert table.by_driver(begun((2, topic.change("d", topic.row(2, chance), 6))))
    late = begun(up(2, 3, name="late"))
    assert not table.by_driver(late)
    table.by_spark(late)
    assert table.names() == {1: "d"}
    # One that can't be read, another key, a time that does not count: Spark says where they are.
    for odd in (
        (1, b"no envelope"),
        (1, topic.change("u", topic.row(1, chance), 10**13)),
    ):
        assert table.read(begun(odd)) is None


@pytest.mark.parametrize("bound", ["MOST_OFFSETS", "MOST_BYTES", "MOST_PARTITIONS"])
def test_many_records_bytes_or_partitions_are_read_by_spark(
    tmp_path: Path,
    spark: SparkSession,
    servers: str,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
) -> None:
    topic, chance = Topic(servers, None), random.Random(5)
    table = Table(tmp_path / "p", spark, topic)
    topic.produce(
        [(n % 2, topic.key(n), topic.change("u", topic.row(n, chance), n + 1)) for n in range(4)]
    )
    number = table.plan({0: 2, 1: 2})
    rows = table.read(number)
    assert rows is not None
    assert len(rows) == 4
    monkeypatch.setattr(driver, bound, 1)
    assert table.read(number) is None


def test_a_live_query_is_merged_by_the_driver(
    tmp_path: Path, spark: SparkSession, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[bool] = []
    merge = SmallChanges.merge

    def noted(of: SmallChanges, changes: pa.RecordBatch, batch_id: int, metadata: str) -> bool:
        merged.append(merge(of, changes, batch_id, metadata))
        return merged[-1]

    monkeypatch.setattr(SmallChanges, "merge", noted)
    topic, chance = Topic(servers, None), random.Random(5)
    loaded = topic.pipeline(tmp_path / "p")
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[-1])
    for key in range(2):
        topic.produce([(0, topic.key(key), topic.change("u", topic.row(key, chance), key + 1))])
        beat = run_live(spark, loaded)
    assert (beat.state, beat.batch_id, merged) == ("running", 1, [True, True])
    assert len(DeltaTable(loaded.target.url).to_pyarrow_table()) == 2
