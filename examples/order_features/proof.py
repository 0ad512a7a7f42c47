"""What the tables, the training set and the served rows have to be, by DuckDB over all raw input.

It shares no code with the runs, and knows neither their plans nor their state: files and topics are
read whole, and each row of an input counts once by its key.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import duckdb
import psycopg
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from deltalake import DeltaTable

_TIMEOUT_S = 30.0
_INPUT = """
    CREATE TABLE {name} AS
    SELECT * FROM {files}
    UNION -- what is in files and in the topic counts once
    SELECT {columns} FROM {name}_topic"""
_COLUMNS = {
    "orders": 'order_id, user_id, currency, amount, "at"::TIMESTAMPTZ',
    "users": 'user_id, tier, country, "at"::TIMESTAMPTZ',
    "rates": 'currency, "at"::TIMESTAMPTZ, rate',
}
EXPECTED = {
    "order_features": """
        SELECT order_id, user_id, o."at" AS "at", country, tier,
            amount * rate // 1_000_000 AS euro_cents
        FROM orders o JOIN users u USING (user_id) JOIN rates r USING (currency)
        WHERE u."at" = date_trunc('day', o."at") AND r."at" = date_trunc('hour', o."at")""",
    "user_features": """
        SELECT user_id, date_trunc('day', "at") AS day, count(*) AS orders,
            sum(euro_cents) AS euro_cents, day + INTERVAL 26 HOURS AS known_at
        FROM expected_order_features
        WHERE date_trunc('day', "at") + INTERVAL 26 HOURS <= (SELECT max("at") FROM orders)
        GROUP BY ALL""",
    "returns": """
        SELECT l.*, o.euro_cents AS order__euro_cents, o.country AS order__country,
            o.tier AS order__tier, o."at" AS order__known_at, u.day AS user__day,
            u.orders AS user__orders, u.euro_cents AS user__euro_cents,
            u.known_at AS user__known_at
        FROM labels l
        LEFT JOIN expected_order_features o ON o.order_id = l.order_id AND o."at" <= asked_at
        ASOF LEFT JOIN expected_user_features u
            ON u.user_id = l.user_id AND u.known_at <= l.asked_at""",
    "served": "SELECT * FROM expected_user_features",
}
"""The rows of each, as a query over the inputs; later ones read the earlier ones."""
NAMES = {
    "order_features": "table order_features",
    "user_features": "table user_features, which follows it",
    "returns": "training set returns, of both",
    "served": "rows served by PostgreSQL",
}


class Compared(NamedTuple):
    """What was found, compared with what all raw input makes it.

    Attributes:
        name: What was compared.
        expected: Number of rows that it has to have.
        equal: Number of those that it has, with equal values in all columns.
        superfluous: Number of rows that it has besides.
    """

    name: str
    expected: int
    equal: int
    superfluous: int

    @property
    def ok(self) -> bool:
        """Whether there are rows, and it has exactly these."""
        return 0 < self.expected == self.equal and not self.superfluous

    @property
    def share(self) -> str:
        """Share of the expected rows that it has, rounded down: only all of them are 100 %."""
        return f"{self.equal * 10_000 // max(self.expected, 1) / 100:g} %"


def prove(folder: Path, servers: str, prefix: str, dsn: str, password: str) -> list[Compared]:
    """Compare both tables, the training set and what is served with what the raw input makes them.

    Args:
        folder: Folder with the raw files in ``data`` and the Delta tables in ``tables``.
        servers: Broker with the topics.
        prefix: What the names of the topics begin with.
        dsn: PostgreSQL that serves.
        password: Its password.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, columns in _COLUMNS.items():
            connection.register(f"{name}_topic", _topic(servers, prefix + name))
            files = f"'{folder}/data/{name}/*.{'csv' if name == 'rates' else 'parquet'}'"
            connection.execute(_INPUT.format(name=name, files=files, columns=columns))
        connection.execute(f"CREATE VIEW labels AS FROM '{folder}/data/labels.parquet'")
        names = ("order_features", "user_features", "returns")
        found = {each: DeltaTable(folder / "tables" / each).to_pyarrow_table() for each in names}
        # The partition that the set is kept by.
        found["returns"] = found["returns"].drop_columns("label_range")
        found["served"] = _served(dsn, password, found["user_features"].column_names)
        return [compared(connection, name, found[name]) for name in EXPECTED]


def compared(connection: duckdb.DuckDBPyConnection, name: str, found: pa.Table) -> Compared:
    """Compare what was found with the rows of :data:`EXPECTED` that have its name.

    Args:
        connection: Database with a table of each input.
        name: Name of the query, whose rows become the table ``expected_<name>``.
        found: The rows that are there.
    """
    connection.execute(f"CREATE TABLE expected_{name} AS {EXPECTED[name]}")
    connection.register("found", found)
    columns = ", ".join(f'"{column}"' for column in found.column_names)
    expected, rows = f"SELECT {columns} FROM expected_{name}", f"SELECT {columns} FROM found"
    counts = [
        int(connection.sql(f"SELECT count(*) FROM ({each})").fetchall()[0][0])
        for each in (expected, f"{expected} EXCEPT ALL {rows}", f"{rows} EXCEPT ALL {expected}")
    ]
    connection.unregister("found")
    return Compared(NAMES[name], counts[0], counts[0] - counts[1], counts[2])


def _topic(servers: str, topic: str) -> pa.Table:
    """Return all records of a topic, as JSON tells their types."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "proof",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        rows, open_partitions = [], set(partitions)
        while open_partitions:
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                text = f"Topic `{topic}` does not answer within {_TIMEOUT_S:.0f} s."
                raise TimeoutError(text)
            if message.error() is None:
                rows.append(json.loads(message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise KafkaException(message.error())
        return pa.Table.from_pylist(rows)
    finally:
        consumer.close()


def _served(dsn: str, password: str, columns: list[str]) -> pa.Table:
    """Return the rows that a service finds."""
    with psycopg.connect(dsn, password=password) as connection:
        cursor = connection.execute(f"SELECT {', '.join(columns)} FROM user_features")
        rows = cursor.fetchall()
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])
