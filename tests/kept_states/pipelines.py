"""The pipelines whose states are kept: what they declare, their files and their records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer

from tests.kept_states.archives import FILE, SERVERS

PARTITIONS = 2
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
HISTORY = range(200)
# It begins before history ends, by less than the allowed lateness.
TOPIC = range(50, 300)
TRANSFORMS = """
from pyspark.sql import functions as F

def held(rows):
    # No row from a number on passes while there is a file `hold` beside this one, with the number.
    def wait(batches):
        import time
        from pathlib import Path
        hold = Path(__file__).with_name("hold")
        for batch in batches:
            highest = max(batch.column("id").to_pylist(), default=-1)
            while hold.exists() and highest >= int(hold.read_text()):
                time.sleep(0.05)
            yield batch
    return rows.mapInArrow(wait, rows.schema)

def identity(rows):
    return rows

def hourly(rows):
    window = F.window("at", "3 hours", "1 hour")
    return (
        held(rows).withWatermark("at", "2 hours").groupBy(window)
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .select(F.col("window.start").alias("start"), "n", "total")
    )
"""
DOUBLED = TRANSFORMS.replace(
    "def identity(rows):\n    return rows",
    "def identity(rows):\n"
    '    return rows.withColumn("v", F.col("v") * 2).withColumn("w", F.lit(1))',
)
DOUBLED_SQL = 'SELECT id, "at", v * 2 AS v, 1 AS w FROM input'
HOURLY_SQL = """
SELECT to_timestamp(mark * 3600) AS start, count(*) AS n, sum(v) AS total
FROM (SELECT v, unnest([0, 1, 2]) AS back, floor(epoch("at") / 3600) AS hour FROM input)
CROSS JOIN LATERAL (SELECT hour - back AS mark)
GROUP BY ALL
"""
_FIRST_LSN = 1_000_000
_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def topic_of(name: str) -> str:
    """The topic of a state's pipeline."""
    return f"kept-{name}"


def moment(number: int) -> datetime:
    """Event time of an event."""
    return BEGIN + timedelta(minutes=number)


def as_json(number: int) -> str:
    """An event."""
    at = f"{moment(number):%Y-%m-%dT%H:%M:%SZ}"
    return json.dumps({"id": number, "at": at, "v": number / 2})


def events(
    name: str, folder: Path, form: str, live: Mapping[str, Any] | None = None, **more: Any
) -> Path:
    """Write the pipeline of a state that appends events, with its history; its file is returned.

    Args:
        name: Name of the state.
        folder: Its folder.
        form: Format of the files.
        live: More of the declaration of the topic.
        **more: More of the declaration, or other.
    """
    (folder / "in").mkdir()
    for at in range(4):
        part = HISTORY[at * len(HISTORY) // 4 : (at + 1) * len(HISTORY) // 4]
        if form == "json":
            path = folder / f"in/{at}.json"
            path.write_text("\n".join(map(as_json, part)) + "\n")
            _in_whole_seconds(path)
        else:
            columns: Mapping[str, tuple[Iterable[Any], pa.DataType]] = {
                "id": (part, pa.int64()),
                "at": (map(moment, part), pa.timestamp("us", "UTC")),
                "v": ((n / 2 for n in part), pa.float64()),
            }
            _write_parquet(folder / f"in/{at}.parquet", columns)
    (folder / "transforms.py").write_text(TRANSFORMS)
    types = {"id": "bigint", "at": "timestamp", "v": "double"}
    history = {"path": f"in/*.{form}", "format": form, "batch": {"files": 1}}
    if form == "json":
        history["schema"] = types
    declared = {
        "name": name,
        "event_time": "at",
        "key": ["id"],
        "allowed_lateness": "100 min",
        "sources": [
            {"name": "history", "type": "files", **history},
            {**_live(name), "schema": types, **(live or {})},
        ],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "spark": {"conf": dict(_SPARK)},
    }
    return _declare(folder, declared | more)


def windows(name: str, folder: Path) -> Path:
    """The same of a state whose pipeline counts events in windows; its file is returned."""
    (folder / "hourly.sql").write_text(HOURLY_SQL)
    more: dict[str, Any] = {
        "transform": "transforms:hourly",
        "sink": {"path": "out", "mode": "merge", "key": ["start"]},
        "audit": {"sql": "hourly.sql"},
    }
    return events(name, folder, "parquet", {"max_offsets_per_batch": 20}, **more)


def captured(name: str, folder: Path) -> Path:
    """The same of a state whose pipeline captures a table of a database."""
    (folder / "in").mkdir()
    keys, taken = range(20), BEGIN
    columns: Mapping[str, tuple[Iterable[Any], pa.DataType]] = {
        "id": (keys, pa.int64()),
        "customer": ((f"c{n}" for n in keys), pa.string()),
        "amount": ((Decimal(n) / 4 for n in keys), pa.decimal128(12, 2)),
        "_position": ((None for _ in keys), pa.string()),
        "_lsn": ((_FIRST_LSN for _ in keys), pa.int64()),
        "_committed_at": ((taken for _ in keys), pa.timestamp("us", "UTC")),
        "_deleted": ((False for _ in keys), pa.bool_()),
    }
    _write_parquet(folder / "in/0.parquet", columns)
    (folder / "transforms.py").write_text(TRANSFORMS)
    parts = {"_position": "position", "_lsn": "lsn", "_committed_at": "committed_at"}
    changes = {
        "format": "debezium",
        "table": "public.orders",
        "schema": {"id": "bigint", "customer": "string", "amount": "decimal(12,2)"},
        "include": {**parts, "_deleted": "deleted"},
    }
    order = {"sequence": "_position", "deleted": "_deleted"}
    history = {"path": "in/*.parquet", "format": "parquet", "sequence": _as_lsn(_FIRST_LSN)}
    declared = {
        "name": name,
        "event_time": "_committed_at",
        "sequence": "_lsn",
        "sources": [
            {"name": "history", "type": "files", **history},
            {**_live(name), **changes},
        ],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "merge", "key": ["id"], **order},
        "state": "state",
        "spark": {"conf": dict(_SPARK)},
    }
    return _declare(folder, declared)


def change(key: int, at: int, customer: str | None) -> str:
    """A change of the captured table as Debezium writes it.

    Args:
        key: The row's key.
        at: Number of its transaction, from 1; each has this one change.
        customer: What the row has from then on; None if it is deleted.
    """
    lsn = _FIRST_LSN + 100 * at
    row = {"id": key, "customer": customer, "amount": f"{at}.25"}
    origin = {
        "connector": "postgresql",
        "ts_ms": int(moment(at).timestamp() * 1000),
        "snapshot": "false",
        "db": "shop",
        "sequence": json.dumps([str(lsn - 60), str(lsn)]),
        "schema": "public",
        "table": "orders",
        "txId": 700 + at,
        "lsn": lsn,
        "xmin": None,
    }
    gone = {"before": {**row, "customer": None, "amount": None}, "after": None, "op": "d"}
    there = {"before": None, "after": row, "op": "u"}
    return json.dumps({**(gone if customer is None else there), "source": origin})


def produce(servers: str, name: str, values: Iterable[tuple[int, str]]) -> None:
    """Append records to the topic of a state.

    Args:
        servers: The broker.
        name: The state.
        values: Number, by which the partition and the time of a record are decided; and its value.
    """
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number, value in values:
        producer.produce(
            topic_of(name),
            value.encode(),
            partition=number % PARTITIONS,
            timestamp=int(moment(number).timestamp() * 1000),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


def produce_events(servers: str, name: str, numbers: Iterable[int]) -> None:
    """Append events to the topic of a state."""
    produce(servers, name, ((number, as_json(number)) for number in numbers))


def produce_changes(
    servers: str, name: str, changes: Iterable[tuple[int, int, str | None]]
) -> None:
    """Append changes of the captured table to the topic of a state: key, transaction, customer."""
    produce(servers, name, ((key, change(key, at, customer)) for key, at, customer in changes))


def _as_lsn(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def _write_parquet(path: Path, columns: Mapping[str, tuple[Iterable[Any], pa.DataType]]) -> None:
    arrays = {name: pa.array(list(values), kind) for name, (values, kind) in columns.items()}
    pq.write_table(pa.table(arrays), path)
    _in_whole_seconds(path)


def _in_whole_seconds(path: Path) -> None:
    """Give a file of history a time that an archive keeps: a plan refuses one that was changed."""
    moment = int(path.stat().st_mtime)
    os.utime(path, (moment, moment))


def _live(name: str) -> dict[str, Any]:
    return {
        "name": "live",
        "type": "kafka",
        "topic": topic_of(name),
        "bootstrap_servers": f"${{{SERVERS}}}",
        "trigger_interval": "200 ms",
    }


def _declare(folder: Path, declared: Mapping[str, Any]) -> Path:
    path = folder / FILE
    path.write_text(yaml.safe_dump(dict(declared), sort_keys=False))
    return path
