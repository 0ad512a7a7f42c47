"""Made-up orders, profiles of users and rates of currencies, as files and as records of topics.

Of each input the files end with :data:`HISTORY_END`, and the topic begins two days before that, as
an archive and its topic do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from examples.flight_data import FeedRecord

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
HISTORY_END = datetime(2024, 3, 22, tzinfo=UTC)
LIVE_FROM = datetime(2024, 3, 25, tzinfo=UTC)
"""When the records begin that come while the pipelines run; all earlier ones are there before."""
END = datetime(2024, 3, 29, 6, tzinfo=UTC)
LAST_DAY = datetime(2024, 3, 28, tzinfo=UTC)
"""The last day whose orders are final at the end."""
# Everything follows from numbers, so each run of the demo has the same rows.
_TABLES = {
    "orders": """
        SELECT n AS order_id, (hash(n, 'user') % 100)::BIGINT AS user_id,
            ['CHF', 'GBP', 'JPY', 'USD'][1 + (hash(n, 'currency') % 4)::INT] AS currency,
            (100 + hash(n, 'amount') % 50_000)::BIGINT AS amount,
            $begin + to_seconds(n * 488 + (hash(n, 'at') % 488)::BIGINT) AS "at"
        FROM range(5_000) AS numbers(n)""",
    "users": """
        SELECT n AS user_id,
            ['bronze', 'silver', 'gold'][1 + (hash(n, day // 9) % 3)::INT] AS tier,
            ['CH', 'DE', 'GB', 'JP', 'US'][1 + (hash(n) % 5)::INT] AS country,
            $begin + to_days(day::INT) AS "at"
        FROM range(29) AS days(day), range(100) AS numbers(n)""",
    "rates": """
        SELECT currency, $begin + to_hours(hour) AS "at",
            (500_000 + hash(currency, hour) % 900_000)::BIGINT AS rate
        FROM range(29 * 24) AS hours(hour),
            unnest(['CHF', 'GBP', 'JPY', 'USD']) AS currencies(currency)""",
}
INPUTS = tuple(_TABLES)


def open_data() -> duckdb.DuckDBPyConnection:
    """Return a database with a table of each input, in order of event time."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, query in _TABLES.items():
        connection.execute(
            f'CREATE TABLE {name} AS SELECT * FROM ({query}) WHERE "at" < $end ORDER BY "at"',
            {"begin": BEGIN, "end": END},
        )
    return connection


def write_history(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write a file of each input with all rows before the end of history, and the labels."""
    for name in INPUTS:
        (folder / name).mkdir(parents=True)
        file = folder / name / f"{BEGIN:%Y-%m}.{'csv' if name == 'rates' else 'parquet'}"
        _copy(connection, f"FROM {name} WHERE {_within(BEGIN, HISTORY_END)}", file)
    # Whether an order will be returned, asked a minute after it.
    labels = (
        'SELECT order_id, user_id, "at" + INTERVAL 1 MINUTE AS asked_at, '
        "hash(order_id) % 9 = 0 AS returned FROM orders"
    )
    _copy(connection, labels, folder / "labels.parquet")


def records(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[FeedRecord]:
    """Yield the records of an input's topic in their order: JSON, with the time of the event."""
    within = _within(HISTORY_END - timedelta(days=2), END)
    rows = connection.sql(f'SELECT * FROM {name} WHERE {within} ORDER BY "at"').to_arrow_table()
    for row in rows.to_pylist():
        at = row["at"]
        value = json.dumps({**row, "at": at.isoformat()})
        yield FeedRecord(int(at.timestamp() * 1000), str(row.get("user_id", name)), value)


def _within(begin: datetime, end: datetime) -> str:
    return f"\"at\" >= TIMESTAMPTZ '{begin}' AND \"at\" < TIMESTAMPTZ '{end}'"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    options = "(TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%SZ')" if file.suffix == ".csv" else ""
    connection.execute(f"COPY ({query}) TO '{file}' {options}")
