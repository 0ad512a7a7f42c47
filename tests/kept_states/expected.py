"""What a kept state's table has to hold, computed from its files and its topic by DuckDB alone.

Nothing here is the project's: no plan, no checkpoint, no decoder, no rule of a seam.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

_EVENTS = """
SELECT id::BIGINT AS id, "at"::TIMESTAMPTZ AS "at", v::DOUBLE AS v FROM history
UNION
SELECT (value->>'$.id')::BIGINT, (value->>'$.at')::TIMESTAMPTZ, (value->>'$.v')::DOUBLE
FROM (SELECT value::JSON AS value FROM topic WHERE json_valid(value))
WHERE value->>'$.at' IS NOT NULL
"""
_WINDOWS = f"""
SELECT start, count(*) AS n, sum(v) AS total
FROM ({_EVENTS}) AS events
JOIN (
    SELECT unnest(generate_series(
        TIMESTAMPTZ '2023-12-31 00:00:00+00', TIMESTAMPTZ '2024-01-03 00:00:00+00', INTERVAL 1 HOUR
    )) AS start
) ON "at" >= start AND "at" < start + INTERVAL 3 HOUR
GROUP BY start
"""
_CAPTURED = """
SELECT id, customer, amount FROM (
    SELECT id, customer, amount, FALSE AS gone, [0, 0] AS position FROM history
    UNION ALL
    SELECT
        coalesce(value->>'$.after.id', value->>'$.before.id')::BIGINT,
        value->>'$.after.customer',
        (value->>'$.after.amount')::DECIMAL(12, 2),
        value->>'$.op' = 'd',
        (value->>'$.source.sequence')::UBIGINT[]
    FROM (SELECT value::JSON AS value FROM topic)
)
QUALIFY row_number() OVER (PARTITION BY id ORDER BY position DESC) = 1 AND NOT gone
"""
EXPECTED = {
    "live": _EVENTS,
    "paused": _EVENTS,
    "mid_history": _EVENTS,
    "half_promoted": f'SELECT id, "at", v * 2 AS v, 1 AS w FROM ({_EVENTS})',
    "windows": _WINDOWS,
    "captured": _CAPTURED,
}
"""Query of the rows of each state's table, over ``history``, its files, and ``topic``."""


def differences(name: str, folder: Path, servers: str, topic: str) -> dict[str, list[Any]]:
    """Compare the table of a state with what its input makes.

    Returns:
        Rows that the table lacks, and those that it should not have, each as often as it differs.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = sorted(map(str, (folder / "in").iterdir()))
        read = "read_json" if files[0].endswith(".json") else "read_parquet"
        connection.execute(f"CREATE VIEW history AS FROM {read}({files})")
        values = pa.table({"value": list(records(servers, topic))})
        connection.register("topic", values)
        connection.register("found", DeltaTable(folder / "out").to_pyarrow_table())
        connection.execute(f"CREATE TABLE expected AS {EXPECTED[name]}")
        columns = ", ".join(
            f'"{column}"' for (column, *_) in connection.execute("DESCRIBE expected").fetchall()
        )
        assert connection.execute("FROM expected").fetchone() is not None
        sides = [f"SELECT {columns} FROM {side}" for side in ("expected", "found")]
        return {
            what: connection.execute(f"{one} EXCEPT ALL {other}").fetchall()
            for what, one, other in (("missing", *sides), ("unexpected", *reversed(sides)))
        }


def records(servers: str, topic: str) -> Iterator[str]:
    """The value of each record that a topic holds."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "-", "enable.auto.commit": False}
    )
    try:
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            place = TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([TopicPartition(topic, partition, first)])
            while first < end:
                (record,) = consumer.consume(1, timeout=30)
                assert record.error() is None, record.error()
                yield record.value().decode()
                first = record.offset() + 1
    finally:
        consumer.close()
