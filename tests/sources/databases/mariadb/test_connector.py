"""What a connector has read of a binary log, and whether the server still has the rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql import Connection
from pymysql.cursors import Cursor

from services.mariadb import LocalMariaDb
from sources.config.snapshot import SnapshotOptions
from sources.databases.mariadb import connector
from sources.databases.mariadb.connector import ReadUpTo, ask_connector, ask_log, find_state
from sources.databases.mariadb.gtid import Gtid
from sources.databases.mariadb.server import ask, connect, parse_address
from sources.databases.replication_slot import Slot
from sources.errors import InputError
from tests.services.mariadb_pair import last_gtid, mariadb_pair, promote
from tests.services.processes import wait_for

NOWHERE: Any = None
"""No connection to a database: Kafka Connect is asked."""
RUNNING = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}
FAILED = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED"}]}
# As Debezium's MariaDB connector 3.5.0 and Kafka Connect 4.3.1 answer.
OFFSETS = {
    "offsets": [
        {
            "partition": {"server": "shop"},
            "offset": {
                "file": "binlog.000003",
                "pos": 23825,
                "gtids": "0-1-129",
                "server_id": 1,
                "event": 3,
            },
        }
    ]
}
MYSQL = {"offsets": [{"partition": {}, "offset": {"file": "mysql-bin.000007", "pos": 4}}]}


@contextmanager
def worker(answers: dict[str, Any]) -> Iterator[str]:
    """A server that answers as Kafka Connect does; yields the URL of a connector."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/connectors/shop"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "offsets", "found"),
    [
        (RUNNING, OFFSETS, ReadUpTo(True, 3, 23825, [Gtid(0, 1, 129)])),
        (FAILED, MYSQL, ReadUpTo(False, 7, 4, [])),
        (RUNNING, {"offsets": []}, ReadUpTo(True, None, 0, [])),
        (None, OFFSETS, "Kafka Connect answers 404 (Not Found)"),
        ({}, OFFSETS, "Kafka Connect's answer is not that of a connector of MariaDB or MySQL"),
    ],
)
def test_a_connectors_place_is_read_from_kafka_connect(
    status: Any, offsets: Any, found: ReadUpTo | str
) -> None:
    with worker({"/connectors/shop/status": status, "/connectors/shop/offsets": offsets}) as url:
        assert ask_connector(url) == found


def reader(url: str) -> Any:
    """A table whose snapshot needs a connector that reads."""
    return SimpleNamespace(options=SimpleNamespace(connector=url), source="snapshot", name="shop.t")


def test_a_snapshot_waits_for_the_first_position_that_kafka_connect_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": []},
    }
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        answers["/connectors/shop/offsets"] = OFFSETS

    monkeypatch.setattr("time.sleep", sleep)
    with worker(answers) as url:
        connector.require_reader(NOWHERE, reader(url))
    assert len(waited) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RUNNING, "has read nothing within 0 s: changes until it reads would be missing"),
        (FAILED, "does not run: changes until it reads would be missing"),
        (None, "is not known to run: Kafka Connect answers 404"),
    ],
)
def test_a_snapshot_before_the_connector_reads_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: Any, said: str
) -> None:
    monkeypatch.setattr(connector, "_FIRST_S", 0.0)
    answers = {"/connectors/shop/status": status, "/connectors/shop/offsets": {"offsets": []}}
    with worker(answers) as url, pytest.raises(InputError, match=said):
        connector.require_reader(NOWHERE, reader(url))


def test_a_worker_that_does_not_answer_is_said() -> None:
    options = SnapshotOptions(
        dsn="mariadb://me@127.0.0.1:1/shop", connector="http://127.0.0.1:1/connectors/shop"
    )
    assert "Kafka Connect does not answer" in str(ask_log(options))


def state_of(connection: Connection[Cursor], read: ReadUpTo) -> Slot:
    found = find_state(connection, read)
    assert isinstance(found, Slot), found
    return found


@pytest.mark.slow
def test_a_server_that_never_had_what_the_connector_has_read_has_lost_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def commit(server: LocalMariaDb) -> None:
        server.execute("INSERT INTO shop.t VALUES ()")

    with mariadb_pair() as (primary, replica):
        monkeypatch.setenv("MYSQL_PWD", primary.password)
        primary.execute(
            "CREATE DATABASE shop", "CREATE TABLE shop.t (id int AUTO_INCREMENT PRIMARY KEY)"
        )
        wait_for(lambda: last_gtid(replica) == last_gtid(primary), "the replica", 30)
        replica.execute("STOP SLAVE IO_THREAD")
        received = last_gtid(replica)
        commit(primary)
        missing = last_gtid(primary)
        with connect(parse_address(replica.dsn("shop")), "snapshot") as connection:
            behind = find_state(connection, ReadUpTo(True, 1, 4, [missing]))
            assert "does not have 0-1-" in str(behind)
            assert "a replica that is behind" in str(behind)
            assert state_of(connection, ReadUpTo(True, 1, 4, [received])).state == "active"
            promote(replica)
            commit(replica)
            commit(replica)
            # The same numbers, under which this server has other transactions.
            assert last_gtid(replica).sequence > missing.sequence
            assert state_of(connection, ReadUpTo(True, 1, 4, [missing])).state == "lost"
            assert state_of(connection, ReadUpTo(True, 1, 4, [received])).state == "active"
            # A domain that the server no longer has stays with the connector.
            old = Gtid(7, 1, 99)
            assert state_of(connection, ReadUpTo(True, 1, 4, [received, old])).state == "active"
            replica.execute("RESET MASTER")
            assert state_of(connection, ReadUpTo(True, 1, 4, [received])).state == "lost"


@pytest.mark.slow
def test_a_log_that_is_removed_before_the_connector_has_read_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A server of its own: its log is removed, which it does for what is on the disk.
    with LocalMariaDb(settings={"innodb-flush-log-at-trx-commit": "1"}) as server:
        monkeypatch.setenv("MYSQL_PWD", server.password)
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        with connect(parse_address(server.dsn("shop")), "snapshot") as connection:
            last = last_gtid(server)
            by_file = ReadUpTo(True, 1, 900, [])
            by_gtid = ReadUpTo(True, 1, 900, [last])
            assert state_of(connection, by_gtid).state == "active"
            assert state_of(connection, by_gtid._replace(is_running=False)).state == "idle"
            before = state_of(connection, by_file).retained_bytes
            server.execute("USE shop", "INSERT INTO t SELECT seq FROM seq_1_to_10000")
            after = state_of(connection, by_file).retained_bytes
            assert after > before
            server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
            assert state_of(connection, by_gtid).retained_bytes >= after

            def is_removed() -> bool:
                # The server keeps a file until the engine has all its transactions on the disk.
                server.execute("CREATE OR REPLACE TABLE shop.u (id int)")
                server.execute("PURGE BINARY LOGS TO 'binlog.000003'")
                [(first, *_), *_] = ask(connection, "SHOW BINARY LOGS")
                return str(first) == "binlog.000003"

            wait_for(is_removed, "the removal of the log", 60)
            # The insert is in no log any more.
            assert state_of(connection, by_gtid).state == "lost"
            assert state_of(connection, by_file).state == "lost"
            # All that was removed had been read, whatever the names of the files.
            read = by_gtid._replace(gtids=[last_gtid(server)])
            assert state_of(connection, read).state == "active"
            assert state_of(connection, ReadUpTo(True, None, 0, [])).state == "missing"
            options = SnapshotOptions(dsn=server.dsn("shop"), connector="unused")
            offset = {"file": "binlog.000003", "pos": 4, "gtids": str(last_gtid(server))}
            answers = {
                "/connectors/shop/status": RUNNING,
                "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
            }
            with worker(answers) as url:
                found = ask_log(options.model_copy(update={"connector": url}))
            assert not isinstance(found, str)
            assert found.state == "active"
