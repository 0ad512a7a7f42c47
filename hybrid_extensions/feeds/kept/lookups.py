"""Look-ups in a sink: what each would have found, by the deliveries that were kept.

A delivery becomes visible between the time at which it was begun and the one at which it was in the
sink. A look-up in between may have found either value, so it is left out, and so is one of a key
before its first kept delivery, unless that says that the sink did not have the key before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.feeds.kept.kept_table import (
    BEGUN,
    COMMITTED,
    DELETED,
    DELIVERED,
    DELIVERY,
    KIND,
    NEW,
)
from sources.common.sql.sql_names import column_list, literal, quoted

_KEY = "_hybrid_key"
_OWN = (DELETED, NEW, DELIVERY, KIND, COMMITTED, BEGUN, DELIVERED)
_MS = 1000


@dataclass(frozen=True)
class Names:
    """Names of the table of look-ups, and of its columns besides key and values.

    Attributes:
        table: The table.
        number: Column: number of the look-up, from 1, in the order of keys and times.
        at: Column: time of the look-up.
        is_change: Column: whether it is at a time at which a value had just changed.
    """

    table: str
    number: str
    at: str
    is_change: str


@dataclass(frozen=True)
class Period:
    """Times of which look-ups are compared.

    Attributes:
        since_ms: The first one, in ms since 1970.
        until_ms: The last one, in ms since 1970: later deliveries may not be kept yet.
    """

    since_ms: int
    until_ms: int


@dataclass(frozen=True)
class Lateness:
    """Time from the commit of a row in the target until it was in the sink, in seconds.

    Of a delivery of several commits it counts from the oldest. Loads do not count.

    Attributes:
        rows: Number of rows.
        median_s: Half of the rows were not later than that; None without rows.
        p99_s: 99 % of the rows were not later.
        worst_s: None of them was later.
    """

    rows: int
    median_s: float | None = None
    p99_s: float | None = None
    worst_s: float | None = None


def copy_deliveries(
    connection: duckdb.DuckDBPyConnection, table: DeltaTable, key: Sequence[str], values: list[str]
) -> None:
    """Copy the deliveries of a feed into a database, as states of each key.

    Args:
        connection: The database.
        table: The table of deliveries.
        key: Columns that identify a row.
        values: Columns to compare.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The login to its store has expired.
    """
    names = column_list([*key, *values, *_OWN])
    copy_rows(connection, "kept", table, f"SELECT {names} FROM target")
    same = " AND ".join(f"d.{quoted(each)} IS NOT DISTINCT FROM k.{quoted(each)}" for each in key)
    times = f"{DELIVERY}, {BEGUN}, {DELIVERED}"
    statements = [
        f"CREATE TABLE loads AS SELECT DISTINCT {times} FROM kept WHERE {KIND} = 'load'",
        # A load without rows.
        f"DELETE FROM kept WHERE {KIND} = 'load' AND {DELETED}",
        f"CREATE TABLE keys AS SELECT *, row_number() OVER (ORDER BY {column_list(key)}) AS {_KEY} "
        f"FROM (SELECT DISTINCT {column_list(key)} FROM kept)",
        f"CREATE TABLE numbered AS SELECT k.{_KEY}, d.* FROM kept AS d JOIN keys AS k ON {same}",
        # A key is gone with the first load that lacks it.
        f"""
        CREATE TABLE gone AS
        SELECT d.{_KEY}, l.* FROM (
            SELECT {_KEY}, {DELIVERY}, {DELETED},
            lead({DELIVERY}) OVER (PARTITION BY {_KEY} ORDER BY {DELIVERY}) AS next FROM numbered
        ) AS d ASOF JOIN loads AS l ON d.{DELIVERY} < l.{DELIVERY}
        WHERE NOT d.{DELETED} AND coalesce(d.next > l.{DELIVERY}, true)
        """,
        f"""
        CREATE TABLE states AS
        SELECT * FROM (
            SELECT {_KEY}, {times}, {NEW}, {column_list(values)} FROM numbered
            UNION ALL BY NAME SELECT *, false AS {NEW} FROM gone
        ) QUALIFY row_number() OVER (PARTITION BY {_KEY}, {BEGUN} ORDER BY {DELIVERY} DESC) = 1
        """,
        "DROP TABLE numbered",
    ]
    for each in statements:
        connection.execute(each)


def create_lookups(  # noqa: PLR0913 - each is another thing
    connection: duckdb.DuckDBPyConnection,
    names: Names,
    key: Sequence[str],
    values: list[str],
    period: Period,
    *,
    sample: int,
    seed: int,
) -> int:
    """Create the table of look-ups with what they found; return how many of them are not known.

    They are one at each change of a key, and a sample: each of a random key at a random time. What
    a look-up found is not known while a delivery of its key was under way, and before the first one
    that was kept, unless the key was new then; such look-ups are left out of the table.

    Args:
        connection: The database, after :func:`copy_deliveries`.
        names: Names of the table and its columns.
        key: Columns that identify a row.
        values: Columns that are compared.
        period: When look-ups are made.
        sample: Number of look-ups in the sample.
        seed: Seed of the sample.
    """
    since, until = (_time(each) for each in (period.since_ms, period.until_ms))
    connection.register("sampled", _sample(connection, period, sample, seed))
    made = {
        "asked": f"""
            SELECT {_KEY}, {DELIVERED} AS {names.at}, true AS {names.is_change} FROM states
            WHERE {DELIVERED} BETWEEN {since} AND {until}
            UNION ALL SELECT {_KEY}, {names.at}, false FROM (
                SELECT number AS {_KEY}, moment AS {names.at} FROM sampled
            )
        """,
        "firsts": (
            f"SELECT {_KEY}, arg_min(coalesce({NEW}, false), {DELIVERY}) AS is_new "
            f"FROM states GROUP BY {_KEY}"
        ),
        names.table: f"""
            SELECT row_number() OVER (ORDER BY a.{_KEY}, a.{names.at}, a.{names.is_change} DESC)
            AS {names.number}, a.{names.at}, a.{names.is_change},
            {_of("k", key)}, {_of("s", values)}
            FROM asked AS a ASOF LEFT JOIN states AS s
            ON a.{_KEY} = s.{_KEY} AND a.{names.at} >= s.{BEGUN}
            JOIN keys AS k ON k.{_KEY} = a.{_KEY} JOIN firsts AS f ON f.{_KEY} = a.{_KEY}
            WHERE CASE WHEN s.{BEGUN} IS NULL THEN f.is_new ELSE a.{names.at} >= s.{DELIVERED} END
        """,
    }
    for name, query in made.items():
        connection.execute(f"CREATE TABLE {name} AS {query}")
    return _count(connection, "asked") - _count(connection, names.table)


def lateness(connection: duckdb.DuckDBPyConnection, period: Period) -> Lateness:
    """Return how late rows were whose delivery was within a period.

    Args:
        connection: The database, after :func:`copy_deliveries`.
        period: The period.
    """
    since, until = (_time(each) for each in (period.since_ms, period.until_ms))
    late = f"greatest(epoch_us({DELIVERED}) - epoch_us({COMMITTED}), 0)"
    found = connection.execute(
        f"SELECT {late} AS late, count(*) FROM kept WHERE {COMMITTED} IS NOT NULL "
        f"AND {DELIVERED} BETWEEN {since} AND {until} GROUP BY late ORDER BY late"
    ).fetchall()
    total = sum(rows for _, rows in found)
    if not total:
        return Lateness(0)
    return Lateness(total, *(_quantile(found, total * share) / 1e6 for share in (0.5, 0.99, 1.0)))


def _quantile(found: Sequence[tuple[int, int]], rows: float) -> int:
    """Return the least value that is not exceeded by so many rows."""
    seen = 0
    for value, count in found:
        seen += count
        if seen >= rows:
            return value
    raise AssertionError("all rows are enough")


def _sample(
    connection: duckdb.DuckDBPyConnection, period: Period, sample: int, seed: int
) -> pa.Table:
    """Return numbers of random keys and random times since the first delivery."""
    query = f"SELECT count(DISTINCT {_KEY}), epoch_ms(min({DELIVERED})) FROM states"
    keys, first_ms = connection.execute(query).fetchall()[0]
    chance = random.Random(seed)
    since_ms = period.since_ms if first_ms is None else max(period.since_ms, first_ms)
    count = sample if keys and since_ms <= period.until_ms else 0
    drawn = [
        (1 + chance.randrange(keys), chance.randint(since_ms, period.until_ms))
        for _ in range(count)
    ]
    numbers = pa.array([number for number, _ in drawn], pa.int64())
    times = pa.array([at * _MS for _, at in drawn], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"number": numbers, "moment": times})


def _of(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{side}.{quoted(name)}" for name in names)


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def _time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{literal(at.isoformat())}::TIMESTAMPTZ"
