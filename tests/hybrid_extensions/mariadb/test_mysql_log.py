"""How much of MySQL's binary log a connector has not read, asked of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymysql import Connection
from pymysql.cursors import Cursor

from hybrid_extensions.cdc import database_log
from hybrid_extensions.cdc.database_log import DatabaseLog
from hybrid_extensions.cdc.databases.replication_slot import gone_state
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.mariadb.log.connector import ReadUpTo
from hybrid_extensions.mariadb.log.mariadb_log import ask_log
from hybrid_extensions.mariadb.log.mysql_log import find_mysql_slot, mysql_place
from hybrid_extensions.mariadb.server import ask, connect, parse_address
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import RunError
from tests.services.binlog_reader import log_status
from tests.services.connect_worker import FAILED, RUNNING, worker

pytestmark = pytest.mark.slow

OTHER = "0a7f6a3c-8f0e-11f0-9a3e-0242ac110002"


@pytest.fixture(scope="module", params=["ON", "OFF"])
def server(request: pytest.FixtureRequest) -> Iterator[LocalMySql]:
    """A server of its own, whose log is removed; with and without GTIDs."""
    mode = {"gtid-mode": request.param, "enforce-gtid-consistency": request.param}
    with LocalMySql(settings=mode) as running:
        running.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        yield running


@pytest.fixture
def connection(server: LocalMySql, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection[Cursor]]:
    monkeypatch.setenv("MYSQL_PWD", server.password)
    with connect(parse_address(server.dsn("shop")), "snapshot") as opened:
        yield opened


def end_of(connection: Connection[Cursor]) -> ReadUpTo:
    """The place of a connector that has read all."""
    [(name, position, *_, gtids)] = ask(connection, log_status(connection))
    return ReadUpTo(True, file_number(name), int(position), [], gtids.replace("\n", ""))


def state_of(connection: Connection[Cursor], read: ReadUpTo) -> Slot:
    found = find_mysql_slot(connection, read)
    assert isinstance(found, Slot), found
    return found


def test_what_waits_is_known_and_another_server_is_found(
    server: LocalMySql, connection: Connection[Cursor]
) -> None:
    read = end_of(connection)
    slot = state_of(connection, read)
    assert (slot.state, slot.unread_bytes, slot.confirmed) == ("active", 0, slot.log_end)
    assert state_of(connection, read._replace(is_running=False)).state == "idle"
    server.execute("INSERT INTO shop.t VALUES (1)", "FLUSH BINARY LOGS")
    behind = state_of(connection, read)
    assert behind.log_end == mysql_place((read.file or 0) + 1, end_of(connection).offset)
    assert 200 < (behind.unread_bytes or 0) < 2000
    assert state_of(connection, end_of(connection)).unread_bytes == 0
    assert gone_state(slot, "") is gone_state(slot, slot.server) is None
    assert gone_state(slot, OTHER) == "moved"
    if read.gtid_set:
        ahead = find_mysql_slot(connection, read._replace(gtid_set=f"{read.gtid_set},{OTHER}:7"))
        assert f"does not have {OTHER}:7, which the connector has read" in str(ahead)


def test_a_connector_that_failed_does_not_let_a_wait_end(
    server: LocalMySql, connection: Connection[Cursor], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = end_of(connection)
    offset = {"file": f"binlog.{read.file:06}", "pos": read.offset, "gtids": read.gtid_set}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
        "/connectors/shop/config": {"heartbeat.interval.ms": "1000"},
    }
    with worker(answers) as url:
        options = SnapshotOptions(dsn=server.dsn("shop"), connector=url)
        assert DatabaseLog(options).unread() == 0
        server.execute("INSERT INTO shop.t VALUES (50)")
        answers["/connectors/shop/status"] = FAILED
        # Without heartbeats the end of the log is not known.
        for config in ({"heartbeat.interval.ms": "1000"}, {}):
            answers["/connectors/shop/config"] = config
            log = DatabaseLog(options)
            assert log.unread() > 0
            with monkeypatch.context() as patch:
                patch.setattr(database_log, "PATIENCE_S", 0)
                with pytest.raises(RunError, match=r"is FAILED \(no reason") as stopped:
                    log.unread()
            assert f"curl -X POST '{url}/restart?includeTasks=true" in str(stopped.value)
        with pytest.raises(RunError, match="to read another server's log"):
            DatabaseLog(options, OTHER).unread()


def test_after_a_failover_the_log_that_the_connector_reads_is_asked(
    server: LocalMySql, connection: Connection[Cursor]
) -> None:
    read = end_of(connection)
    offset = {"file": f"binlog.{read.file:06}", "pos": read.offset, "gtids": read.gtid_set}
    address = {"database.hostname": "127.0.0.1", "database.port": str(server.port)}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
        "/connectors/shop/config": {"heartbeat.interval.ms": "1000", **address},
    }
    [(own,)] = ask(connection, "SELECT @@server_uuid")
    with worker(answers) as url:
        # Nobody listens there any more.
        options = SnapshotOptions(dsn="mysql://hybrid@127.0.0.1:1/shop", connector=url)
        found = ask_log(options)
        assert isinstance(found, Slot), found
        assert (found.server, gone_state(found, OTHER)) == (own, "moved")
        # A name that only the connector's network knows: the declared server is asked.
        address["database.hostname"] = "db.invalid"
        answers["/connectors/shop/config"] = {"heartbeat.interval.ms": "1000", **address}
        declared = ask_log(SnapshotOptions(dsn=server.dsn("shop"), connector=url))
        assert isinstance(declared, Slot), declared
        assert declared.server == own


def test_a_log_that_was_removed_or_begun_again_is_lost(
    server: LocalMySql, connection: Connection[Cursor]
) -> None:
    before = end_of(connection)
    server.execute("INSERT INTO shop.t VALUES (100)", "FLUSH BINARY LOGS")
    after = end_of(connection)
    server.execute(f"PURGE BINARY LOGS TO 'binlog.{after.file:06}'")
    # The insert is in no log any more.
    assert state_of(connection, before).state == "lost"
    assert state_of(connection, after).state == "active"
    is_old = "MASTER" in log_status(connection)
    reset = "RESET MASTER" if is_old else "RESET BINARY LOGS AND GTIDS"
    server.execute("INSERT INTO shop.t VALUES (101)", reset)
    assert state_of(connection, after).state == "lost"
    assert state_of(connection, end_of(connection)).state == "active"
    assert state_of(connection, ReadUpTo(True, None, 0, [])).state == "missing"


def test_the_state_is_that_of_the_kind_of_server(
    server: LocalMySql, connection: Connection[Cursor]
) -> None:
    read = end_of(connection)
    offset = {"file": f"binlog.{read.file:06}", "pos": read.offset, "gtids": read.gtid_set}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
        "/connectors/shop/config": {"heartbeat.interval.ms": "1000"},
    }
    with worker(answers) as url:
        found = ask_log(SnapshotOptions(dsn=server.dsn("shop"), connector=url))
    assert found == state_of(connection, read)
