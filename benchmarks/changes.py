"""Benchmark: merge a topic of Debezium changes into a Delta table, by the project and plain Spark.

    python -m benchmarks.changes --rows 1000000 --rounds 5
    python -m benchmarks.changes --trickle 100

The topic holds Debezium envelopes in JSON: inserts, updates and deletes of ``--keys`` keys. With
``--schemas``, each record has its schema in front, as Kafka Connect writes it by default. Plain
Spark is what one writes without the project: ``from_json``, the last change of each key by its LSN,
and MERGE in ``foreachBatch``. Both tables have to be equal at the end. ``--trickle N`` measures
micro-batches of N changes instead, into tables that already hold each key.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.session import HERE, in_turns, plain_topic, report, session
from benchmarks.topics import deliver, send
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.errors.error_reports import reporting_batch
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import stream_topics, with_new_partitions
from spark_jobs.inside.readers.topics.parse_records import parse_values
from spark_jobs.inside.sink import sink
from spark_jobs.table.commit_position import CommitPositions

_TOPIC = "shop.public.orders"
_PARTITIONS = 4
_TRICKLE_BATCHES = 8
_COLUMNS = {"id": "bigint", "name": "string", "v": "double"}
_ROW = "struct<id bigint, name string, v double>"
_ENVELOPE = f"before: {_ROW}, after: {_ROW}, source: struct<lsn bigint>, op: string"
_MERGE = """
MERGE INTO delta.`{}` t USING {{source}} s ON t.id = s.id
WHEN MATCHED AND s.deleted THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.name, v = s.v, lsn = s.lsn
WHEN NOT MATCHED AND NOT s.deleted THEN INSERT (id, name, v, lsn) VALUES (s.id, s.name, s.v, s.lsn)
"""

# By name, a function of a session, an empty folder and a broker's address that creates a table and
# returns its path and the writer of a stream into it.
_Contenders = Mapping[str, Callable[[SparkSession, Path, str], tuple[Path, DataStreamWriter]]]


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of changes")
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--schemas", action="store_true", help="write the schema in front of each payload"
    )
    parser.add_argument(
        "--trickle", type=int, default=0, help="changes in a micro-batch; 0: read the whole topic"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder, servers = Path(name), broker.bootstrap_servers
        changes = _Changes(servers, options.keys, _head() if options.schemas else "")
        changes.produce(options.keys if options.trickle else options.rows)
        spark = session(_pipeline(folder, servers, 0), folder)
        plain_spark = partial(_plain_spark, envelope="payload." if options.schemas else "")
        contenders: _Contenders = {"project": _project, "plain Spark": plain_spark}
        if options.trickle:
            speeds = _trickle(spark, folder, contenders, changes, options.trickle, options.rounds)
        else:
            speeds = _catch_up(spark, folder, contenders, changes, options.rounds)
        spark.stop()
    name = f"changes{'-schemas' * options.schemas}{'-trickle' * bool(options.trickle)}"
    report(name, speeds, "project", options.trickle or options.rows)


def _catch_up(
    spark: SparkSession, folder: Path, contenders: _Contenders, changes: _Changes, rounds: int
) -> dict[str, list[float]]:
    """Let each contender read the whole topic into a new table; return its changes/s by round.

    Raises:
        RuntimeError: The contenders' tables differ.
    """
    speeds: dict[str, list[float]] = {contender: [] for contender in contenders}
    for round_ in range(rounds + 1):  # the first one warms up
        rows: dict[str, set[tuple[Any, ...]]] = {}
        for contender in in_turns(list(contenders), round_):
            # A new path each time, because Delta caches tables by path.
            home = folder / f"{contender}-{round_}"
            home.mkdir()
            started = time.monotonic()
            table, writer = contenders[contender](spark, home, changes.servers)
            writer.trigger(availableNow=True).start().awaitTermination()
            if round_:
                speeds[contender].append(changes.count / (time.monotonic() - started))
            rows[contender] = _rows(table)
            shutil.rmtree(home)
        _require_same(rows)
    return speeds


def _trickle(
    spark: SparkSession,
    folder: Path,
    contenders: _Contenders,
    changes: _Changes,
    size: int,
    rounds: int,
) -> dict[str, list[float]]:
    """Feed each contender small micro-batches, one after the other; return their changes/s.

    Args:
        spark: The session.
        folder: An empty folder.
        contenders: By name, as in :data:`_Contenders`.
        changes: Producer of changes.
        size: Changes in a micro-batch.
        rounds: Turns of each contender, each of several micro-batches.

    Raises:
        RuntimeError: The contenders' tables differ at the end.
    """
    speeds: dict[str, list[float]] = {contender: [] for contender in contenders}
    tables: dict[str, Path] = {}
    writers: dict[str, DataStreamWriter] = {}
    for contender, make in contenders.items():
        (folder / contender).mkdir()
        tables[contender], writer = make(spark, folder / contender, changes.servers)
        writers[contender] = writer.trigger(processingTime="0 seconds")
    for round_ in range(rounds + 1):  # the first one warms up
        for contender in in_turns(list(contenders), round_):
            # Changes from the other contender's turn are read before the measurement.
            running = writers[contender].start()
            running.processAllAvailable()
            for _ in range(_TRICKLE_BATCHES):
                changes.produce(size)
                started = time.monotonic()
                running.processAllAvailable()
                if round_:
                    speeds[contender].append(size / (time.monotonic() - started))
            running.stop()
    for writer in writers.values():
        writer.trigger(availableNow=True).start().awaitTermination()
    _require_same({contender: _rows(table) for contender, table in tables.items()})
    return speeds


def _rows(table: Path) -> set[tuple[Any, ...]]:
    """Return the rows of a Delta table."""
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=[*_COLUMNS])
    return set(zip(*rows.to_pydict().values(), strict=True))


def _require_same(rows: dict[str, set[tuple[Any, ...]]]) -> None:
    """Raise a RuntimeError unless all contenders have the same rows."""
    if rows["project"] != rows["plain Spark"]:
        raise RuntimeError("The contenders' tables differ.")


def _project(spark: SparkSession, home: Path, servers: str) -> tuple[Path, DataStreamWriter]:
    """Create the project's target table and the writer of its stream into it."""
    loaded = _pipeline(home, servers, 1)
    (source,) = loaded.pipeline.topics
    generation = loaded.open_generation(create=True)
    assert generation is not None
    starts = with_new_partitions({}, KafkaLog(source).partitions)
    raw = stream_topics(spark, source, starts, source.max_offsets_per_batch)
    columns = source.declared_columns or {}
    names = parse_schema(columns).names
    event_time = EventTimeCheck(loaded.pipeline.event_time)
    rows = parse_values(raw, source, columns, generation, event_time).select(*names)
    target = loaded.target
    guard = sink.prepare_table(loaded.pipeline.sink, target, rows, generation)
    positions = CommitPositions(generation, [source.name], is_append=False)
    writer = sink.write_stream(rows, loaded, target, positions, guard, reporting_batch)
    return target.root, writer.option("checkpointLocation", generation.checkpoint.hadoop_path)


def _plain_spark(
    spark: SparkSession, home: Path, servers: str, envelope: str
) -> tuple[Path, DataStreamWriter]:
    """Create a table and the writer of a plain Spark stream that merges changes into it.

    Args:
        spark: The session.
        home: Folder of table and checkpoint.
        servers: Address of the broker.
        envelope: Prefix of the envelope's fields: ``payload.`` with schemas, otherwise empty.
    """
    table = home / "plain"
    spark.createDataFrame([], "id bigint, name string, v double, lsn bigint").write.format(
        "delta"
    ).save(str(table))
    raw = plain_topic(spark, servers, _TOPIC)
    inner = f"struct<{_ENVELOPE}>"
    schema = f"struct<payload: {inner}>" if envelope else inner
    change = F.from_json(F.col("value").cast("string"), schema).alias("c")
    rows = raw.where("value IS NOT NULL").select(change)
    rows = rows.selectExpr(
        f"coalesce(c.{envelope}after.id, c.{envelope}before.id) AS id",
        f"c.{envelope}after.name AS name",
        f"c.{envelope}after.v AS v",
        f"c.{envelope}source.lsn AS lsn",
        f"c.{envelope}op = 'd' AS deleted",
    )

    def merge(batch: DataFrame, _: int) -> None:
        last = batch.groupBy("id").agg(F.max_by(F.struct("*"), "lsn").alias("r")).select("r.*")
        batch.sparkSession.sql(_MERGE.format(table), source=last)

    writer = rows.writeStream.foreachBatch(merge)
    return table, writer.option("checkpointLocation", str(home / "checkpoint"))


def _pipeline(home: Path, servers: str, number: int) -> LoadedPipeline:
    """Return the project's pipeline, which merges the topic of changes."""
    pipeline = Pipeline.model_validate(
        {
            "name": f"bench{number}",
            "event_time": "_committed_at",
            "sources": [
                {
                    "type": "kafka",
                    "name": "changes",
                    "topic": _TOPIC,
                    "bootstrap_servers": servers,
                    "start": "earliest",
                    "format": "debezium",
                    "table": "public.orders",
                    "schema": _COLUMNS,
                    "include": {
                        "_position": "position",
                        "_committed_at": "committed_at",
                        "_deleted": "deleted",
                    },
                }
            ],
            "transform": "none:none",
            "sink": {
                "path": "out",
                "mode": "merge",
                "key": ["id"],
                "sequence": "_position",
                "deleted": "_deleted",
            },
            "state": "state",
            "spark": HERE,
        }
    )
    return LoadedPipeline(home / "bench.yaml", pipeline)


def _head() -> str:
    """Return the JSON schema of an envelope, as Kafka Connect's JSON converter writes it."""
    kinds = {"id": "int64", "name": "string", "v": "double"}
    row = [{"type": kind, "optional": name != "id", "field": name} for name, kind in kinds.items()]
    strings = ["version", "connector", "name", "snapshot", "db", "sequence", "schema", "table"]
    numbers = ["ts_ms", "ts_us", "ts_ns", "txId", "lsn", "xmin"]
    origin = [
        {"type": kind, "optional": True, "field": name}
        for kind, names in (("string", strings), ("int64", numbers))
        for name in names
    ]
    sides = {"before": row, "after": row, "source": origin}
    fields = [
        {"type": "struct", "fields": of, "optional": True, "name": f"shop.{name}", "field": name}
        for name, of in sides.items()
    ]
    fields += [{"type": "string", "optional": False, "field": "op"}]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "shop.Envelope"}
    return json.dumps(schema, separators=(",", ":"))


class _Changes:
    """Producer of random changes as Debezium writes them, with a tombstone after each delete.

    All changes of a key are in one partition.

    Args:
        servers: Address of the broker, on which the topic is created.
        keys: Number of keys.
        head: JSON schema to write in front of each payload; none if empty.

    Attributes:
        servers: Address of the broker.
        count: Number of changes so far, without tombstones.
    """

    def __init__(self, servers: str, keys: int, head: str) -> None:
        create_topic(servers, _TOPIC, _PARTITIONS, {"retention.ms": "-1"})
        self.servers = servers
        self.count = 0
        self._keys = keys
        self._head = head
        self._chance = random.Random(7)
        self._present: set[int] = set()
        self._producer = Producer(
            {"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000}
        )

    def produce(self, rows: int) -> None:
        """Produce a number of further changes, and wait until all are delivered."""
        for _ in range(rows):
            self._change()
        deliver(self._producer)

    def _change(self) -> None:
        """Produce the next change: an insert of an absent key, a delete (1 in 10) or an update."""
        n, key = self.count, self._chance.randrange(self._keys)
        self.count += 1
        lsn = 1_000_000 + n * 64
        op = "c" if key not in self._present else "d" if self._chance.random() < 0.1 else "u"
        row = f'{{"id":{key},"name":"customer {n}","v":{n / 2}}}'
        before = row if op == "d" else "null"
        after = "null" if op == "d" else row
        payload = (
            f'{{"before":{before},"after":{after},"source":{{"version":"3.6.3.Final","connector":'
            f'"postgresql","name":"shop","ts_ms":{1_700_000_000_000 + n},"snapshot":"false","db":'
            f'"shop","sequence":"[\\"{lsn - 64}\\",\\"{lsn}\\"]","schema":"public","table":'
            f'"orders","txId":{n},"lsn":{lsn},"xmin":null}},"transaction":null,"op":"{op}",'
            f'"ts_ms":{1_700_000_000_500 + n}}}'
        )
        head = self._head
        self._send(key, f'{{"schema":{head},"payload":{payload}}}' if head else payload)
        if op == "d":
            self._present.discard(key)
            self._send(key, None)
        else:
            self._present.add(key)

    def _send(self, key: int, value: str | None) -> None:
        """Put a record into the producer's queue."""
        text = None if value is None else value.encode()
        send(self._producer, _TOPIC, text, key=str(key), partition=key % _PARTITIONS)


if __name__ == "__main__":
    main()
