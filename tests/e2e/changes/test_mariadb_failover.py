"""A connector is started again, and moves to a replica, in the midst of transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor

from hybrid_extensions.servers.connect import binlog_config
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from sources.kafka.client.kafka_log import KafkaLog
from tests.e2e.case import live_of
from tests.e2e.changes.binlog_case import BinlogCase
from tests.services.mariadb_pair import last_gtid, mariadb_pair, promote
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.slow]

COLUMNS = {"id": "bigint", "pieces": "bigint", "note": "string"}
ROWS = 2000
# It reads no faster than it writes, so that it can be stopped within a transaction.
SLOW = {
    "max_batch_size": "10",
    "max_queue_size": "20",
    "producer_override_buffer_memory": "65536",
    "provide_transaction_metadata": "true",
}
FAILOVER = {
    "transforms": "failover",
    "transforms.failover.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.failover.static.field": "failover",
    "transforms.failover.static.value": "1",
}


@pytest.fixture
def pair() -> Iterator[tuple[LocalMariaDb, LocalMariaDb]]:
    with mariadb_pair() as servers:
        yield servers


class Shop(threading.Thread):
    """Changes one row after another, in a transaction each, until its server is gone."""

    def __init__(self, server: LocalMariaDb, database: str, first: int) -> None:
        super().__init__(daemon=True)
        self._connection = server.connect(database)
        self._first = first
        self.stop = threading.Event()

    def run(self) -> None:
        number = self._first
        try:
            with self._connection as connection, connection.cursor() as cursor:
                while not self.stop.wait(0.02):
                    number += 1
                    cursor.execute("BEGIN")
                    cursor.execute(f"INSERT INTO stock VALUES ({number}, 1, 'light')")
                    cursor.execute(f"UPDATE stock SET pieces = {number} WHERE id = -1")
                    cursor.execute("COMMIT")
        except pymysql.MySQLError:
            pass


def change_all(server: LocalMariaDb, database: str, first: int) -> None:
    """One transaction that changes each of its rows several times, and gives them other keys."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        rows = f"id BETWEEN {first} AND {first + ROWS}"
        cursor.execute(
            f"INSERT INTO stock SELECT {first} + seq, seq, repeat('x', seq % 90) "
            f"FROM seq_1_to_{ROWS - 1}"
        )
        for statement in (
            *[f"UPDATE stock SET pieces = pieces + 1 WHERE {rows}"] * 3,
            f"UPDATE stock SET id = id + 1 WHERE {rows} ORDER BY id DESC",
            f"DELETE FROM stock WHERE {rows} AND id % 9 = 7",
            f"UPDATE stock SET pieces = pieces * 2 WHERE {rows} AND id % 2 = 0",
        ):
            cursor.execute(statement)
        cursor.execute("COMMIT")


def test_all_changes_are_in_their_order_though_the_primary_is_killed(
    tmp_path: Path,
    pair: tuple[LocalMariaDb, LocalMariaDb],
    servers: str,
    connect_mariadb: Connectors,
) -> None:
    primary, replica = pair
    case = BinlogCase(tmp_path, primary, servers, connect_mariadb)
    case.execute(
        "CREATE TABLE stock (id bigint PRIMARY KEY, pieces bigint, note text)",
        "INSERT INTO stock VALUES (-1, 0, 'counter')",
    )
    case.capture(["stock"], **SLOW)
    try:
        source = live_of(case.pipeline("stock", COLUMNS))
        log = KafkaLog(source)
        _start_again_in_a_transaction(case, primary, log, connect_mariadb)
        shops = [Shop(primary, case.name, n * 1_000_000) for n in (2, 3)]
        for shop in shops:
            shop.start()
        _pause_in_a_transaction(case, primary, log, connect_mariadb, 100_000)
        # What the connector has read by now; later transactions get lost with the primary.
        needed = last_gtid(primary).sequence
        wait_for(lambda: last_gtid(replica).sequence >= needed, "the replica", 60)
        primary.kill()
        for shop in shops:
            shop.join()

        promote(replica, server_id=1)
        replica.execute(f"INSERT INTO {case.name}.stock VALUES (-2, 0, 'new primary')")
        connect_mariadb.begin_transaction_again(case.name)
        names = [f"{case.name}.stock"]
        moved = binlog_config(replica, case.name, names, servers, snapshot_mode="no_data", **SLOW)
        connect_mariadb.configure(case.name, {**moved, **FAILOVER})
        connect_mariadb.resume(case.name)
        change_all(replica, case.name, 200_000)
        replica.execute(f"INSERT INTO {case.name}.stock VALUES (-3, 0, 'last')")
        reader = source.reader()
        latest: dict[int, dict[str, Any]] = {}
        start = log.log_start()

        def has_last() -> bool:
            end = log.log_end()
            for record in log.read(start, 10**6, end):
                if record.value is not None:
                    row = dict(reader.fields(record.value))
                    known = latest.get(row["id"])
                    if known is None or known["_position"] <= row["_position"]:
                        latest[row["id"]] = row
            start.update(end)
            return -3 in latest

        wait_for(has_last, "the last change", 120)
    finally:
        case.end()
    with replica.connect(case.name) as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute("SELECT * FROM stock")
        expected = {row["id"]: row for row in cursor.fetchall()}
    found = {
        key: {name: row[name] for name in COLUMNS}
        for key, row in latest.items()
        if not row["_deleted"]
    }
    assert found == expected


def _start_again_in_a_transaction(
    case: BinlogCase, server: LocalMariaDb, log: KafkaLog, connect: Connectors
) -> None:
    begin = _written(log)
    _pause_in_a_transaction(case, server, log, connect, 1000)
    names = [f"{case.name}.stock"]
    config = binlog_config(server, case.name, names, case.servers, snapshot_mode="no_data", **SLOW)
    # Other settings, or the task would not be started again.
    connect.configure(case.name, {**config, "poll.interval.ms": "60"})
    connect.resume(case.name)
    # Tombstones are among them.
    wait_for(lambda: _written(log) > begin + ROWS * 7.5, "the end of the transaction", 60)


def _pause_in_a_transaction(
    case: BinlogCase, server: LocalMariaDb, log: KafkaLog, connect: Connectors, first: int
) -> None:
    """Pause the connector while it writes the second half of a transaction."""
    begin = _written(log)
    change_all(server, case.name, first)
    wait_for(lambda: _written(log) > begin + ROWS * 3, "the midst of the transaction", 60)
    connect.pause(case.name)
    _wait_until_silent(log)


def _written(log: KafkaLog) -> int:
    return sum(log.log_end().values())


def _wait_until_silent(log: KafkaLog) -> None:
    """Wait until nothing was written for half a second: a task pauses after it says so."""
    last, since = _written(log), time.monotonic()

    def is_silent() -> bool:
        nonlocal last, since
        if (now := _written(log)) != last:
            last, since = now, time.monotonic()
        return time.monotonic() > since + 0.5

    wait_for(is_silent, "the connector to pause", 60)
