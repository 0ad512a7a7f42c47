"""How much of a binary log a connector has not read, and whether the server still has the rest."""

from __future__ import annotations

from typing import Any

import pytest
from pymysql import Connection
from pymysql.cursors import Cursor

from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.mariadb.log.connector import ReadUpTo
from hybrid_extensions.mariadb.log.gtid import Gtid, parse_gtids
from hybrid_extensions.mariadb.log.mariadb_log import ask_log, find_mariadb_slot
from hybrid_extensions.mariadb.server import ask, connect, parse_address
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from sources.config.source.snapshot import SnapshotOptions
from tests.services.connect_worker import RUNNING, worker
from tests.services.mariadb_pair import last_gtid, mariadb_pair, promote
from tests.services.processes import wait_for


def test_a_worker_that_does_not_answer_is_said() -> None:
    options = SnapshotOptions(
        dsn="mariadb://me@127.0.0.1:1/shop", connector="http://127.0.0.1:1/connectors/shop"
    )
    assert "Kafka Connect does not answer" in str(ask_log(options))


def state_of(connection: Connection[Cursor], read: ReadUpTo) -> Slot:
    found = find_mariadb_slot(connection, read)
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
            behind = find_mariadb_slot(connection, ReadUpTo(True, 1, 4, [missing]))
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
                "/connectors/shop/config": {},
            }
            with worker(answers) as url:
                found = ask_log(options.model_copy(update={"connector": url}))
            assert not isinstance(found, str)
            assert found.state == "active"


def end_of(connection: Connection[Cursor]) -> ReadUpTo:
    """The place of a connector that has read all."""
    [(name, position, *_)] = ask(connection, "SHOW MASTER STATUS")
    [(gtids,)] = ask(connection, "SELECT @@gtid_binlog_pos")
    return ReadUpTo(True, int(name.rpartition(".")[2]), int(position), parse_gtids(str(gtids)))


@pytest.mark.slow
def test_all_is_confirmed_once_no_change_of_rows_comes_after_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalMariaDb() as server:
        monkeypatch.setenv("MYSQL_PWD", server.password)
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        with connect(parse_address(server.dsn("shop")), "snapshot") as connection:
            read = end_of(connection)

            def unread(at: ReadUpTo) -> int | None:
                found = state_of(connection, at)
                assert (found.confirmed >= found.log_end) == (found.unread_bytes == 0)
                return found.unread_bytes

            assert state_of(connection, read).log_end == last_gtid(server).sequence
            assert unread(read) == 0
            # Statements that change no row, which a connector confirms with the next transaction.
            server.execute("CREATE TABLE shop.u (id int)", "ANALYZE TABLE shop.t")
            assert unread(read) == 0
            # With the rights that the user of `snapshot.dsn` needs.
            server.execute(
                "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'reader'",
                "GRANT SELECT ON shop.* TO reader@'127.0.0.1'",
                "GRANT BINLOG MONITOR ON *.* TO reader@'127.0.0.1'",
            )
            with monkeypatch.context() as patch:
                patch.setenv("MYSQL_PWD", "reader")
                address = parse_address(server.dsn("shop").replace("hybrid@", "reader@"))
                with connect(address, "snapshot") as asked:
                    assert state_of(asked, read).unread_bytes == 0
            server.execute("FLUSH BINARY LOGS", "DROP TABLE shop.u")
            assert unread(read) == 0
            # The same place in the log of a server that numbered another way.
            other = [each._replace(sequence=each.sequence - 1) for each in read.gtids]
            assert unread(read._replace(gtids=other))
            assert unread(read._replace(gtids=other, offset=read.offset + 1))
            server.execute("INSERT INTO shop.t VALUES (1)")
            assert unread(read)
            read = end_of(connection)
            assert unread(read) == 0
            server.execute("TRUNCATE shop.t")
            assert unread(read)
            server.execute("USE shop", "INSERT INTO t SELECT seq FROM seq_1_to_100000")
            assert (unread(read) or 0) > 500_000


@pytest.mark.slow
def test_the_end_of_the_log_counts_only_if_the_connector_can_confirm_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offset = {"file": "binlog.000001", "pos": 4, "gtids": "0-1-1"}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
    }
    with LocalMariaDb() as server, worker(answers) as url:
        monkeypatch.setenv("MYSQL_PWD", server.password)
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int)")
        server.execute("INSERT INTO shop.t VALUES (1)")
        options = SnapshotOptions(dsn=server.dsn("shop"), connector=url)
        assert ask_log(options) == "Kafka Connect answers 404 (Not Found)"
        answers["/connectors/shop/config"] = {}
        found = ask_log(options)
        assert isinstance(found, Slot)
        assert (found.state, found.log_end, found.unread_bytes) == ("active", 0, None)
        answers["/connectors/shop/config"] = {"heartbeat.interval.ms": "1000"}
        found = ask_log(options)
        assert isinstance(found, Slot)
        assert found.log_end == last_gtid(server).sequence
        assert found.unread_bytes
