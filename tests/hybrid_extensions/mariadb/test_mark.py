"""A mark in the binary log of a real MariaDB has each commit on the side that it belongs to."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.captured_table import Misfit
from hybrid_extensions.cdc.databases.replication_slot import ask_slot
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.mariadb.log.gtid import Gtid, only_gtid
from hybrid_extensions.mariadb.log.log_end import mark_log
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.common.database_snapshot import file_position, gtid_position
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, UnavailableError
from tests.services.binlog_reader import log_status
from tests.services.connect_worker import RUNNING, worker

pytestmark = pytest.mark.slow
CONFIG = {"heartbeat.interval.ms": "1000"}


class Case:
    """A table in a real server, and a worker that answers for a connector."""

    def __init__(self, mariadb: LocalMariaDb, name: str, url: str, answers: Any) -> None:
        self.mariadb, self.name = mariadb, name
        self.options = SnapshotOptions(dsn=mariadb.dsn(name), connector=url)
        self._answers = answers

    def commit(self, *, settings: str = "") -> Gtid:
        """Commit a row, and return the number of the transaction."""
        with self.mariadb.connect(self.name) as connection, connection.cursor() as cursor:
            if settings:
                cursor.execute(f"SET SESSION {settings}")
            cursor.execute("INSERT INTO t VALUES ()")
            return last_gtid(cursor)

    def confirm(self, gtids: str) -> None:
        """What the connector has confirmed from now on."""
        offset = {"file": "binlog.000001", "pos": 4, "gtids": gtids}
        self._answers["/connectors/shop/offsets"] = {"offsets": [{"offset": offset}]}


def last_gtid(cursor: Any) -> Gtid:
    cursor.execute("SELECT @@last_gtid")
    [(text,)] = cursor.fetchall()
    return Gtid(*map(int, text.split("-")))


def position(gtid: Gtid) -> str:
    """That of the last row of a transaction."""
    return gtid_position(gtid.domain, gtid.sequence, 10**12, 10**9)


@pytest.fixture
def case(mariadb: LocalMariaDb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("MYSQL_PWD", mariadb.password)
    name = f"marks_{uuid.uuid4().hex[:8]}"
    mariadb.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id bigint AUTO_INCREMENT PRIMARY KEY)",
    )
    answers: dict[str, Any] = {
        "/connectors/shop/config": CONFIG,
        "/connectors/shop/status": RUNNING,
    }
    with worker(answers) as url:
        yield Case(mariadb, name, url, answers)
    mariadb.execute(f"DROP DATABASE {name}")


def test_what_was_committed_before_is_on_one_side_and_nothing_else(case: Case) -> None:
    with case.mariadb.connect(case.name) as in_flight, in_flight.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES ()")
        before = case.commit()
        first = mark_log(case.options)
        between = case.commit()
        second = mark_log(case.options)
        cursor.execute("COMMIT")
        late = last_gtid(cursor)
    assert position(before) < first.position < position(between) < second.position < position(late)
    assert (first.text, first.through) == (str(before), before.sequence)
    assert first.at < second.at


def test_marks_under_load_divide_the_commits_before_them_from_those_after(case: Case) -> None:
    stop, committed = threading.Event(), list[Gtid]()

    def commit() -> None:
        with case.mariadb.connect(case.name) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("INSERT INTO t VALUES ()")
                committed.append(last_gtid(cursor))

    threads = [threading.Thread(target=commit) for _ in range(4)]
    with ExitStack() as ending:
        for thread in threads:
            thread.start()
            ending.callback(thread.join)
        ending.callback(stop.set)
        for _ in range(30):
            known = list(committed)
            mark = mark_log(case.options)
            assert all(position(each) < mark.position for each in known)
            assert position(case.commit()) > mark.position


def test_a_user_without_any_privilege_can_mark(case: Case) -> None:
    user = f"u_{uuid.uuid4().hex[:8]}"
    case.mariadb.execute(f"CREATE USER {user} IDENTIFIED BY '{case.mariadb.password}'")
    last = case.commit()
    dsn = case.mariadb.dsn("", user)
    options = SnapshotOptions(dsn=dsn, connector=case.options.connector)
    assert mark_log(options).through == last.sequence


def test_a_connector_has_confirmed_what_its_offsets_say_of_the_servers_domain(case: Case) -> None:
    first, second = case.commit(), case.commit(settings="server_id = 2")
    case.commit()
    # Another domain was removed from the server, and a failover left two servers in this one.
    case.confirm(f"7-1-99999999,{first},{second}")
    found = ask_slot(case.options)
    assert isinstance(found, Slot)
    assert found.confirmed == second.sequence
    case.confirm("7-1-99999999")
    found = ask_slot(case.options)
    assert isinstance(found, str) or found.confirmed == 0


def test_a_replica_is_refused_until_it_has_a_commit_of_its_own(case: Case) -> None:
    other = case.commit(settings="server_id = 99")
    with pytest.raises(InputError, match=rf"is {other}, of server 99; this is server 1") as caught:
        mark_log(case.options)
    assert caught.value.transient
    assert "lead to the primary" in caught.value.hint
    case.commit()
    mark_log(case.options)


@pytest.mark.parametrize("config", [{}, {"heartbeat.interval.ms": "0"}])
def test_a_connector_without_heartbeats_is_refused(config: dict[str, str]) -> None:
    with worker({"/connectors/shop/config": config}) as url:
        options = SnapshotOptions(dsn="mariadb://reader@127.0.0.1:1/shop", connector=url)
        with pytest.raises(InputError, match=r"has no heartbeats.*heartbeat\.interval\.ms=1000"):
            mark_log(options)


def test_a_connector_that_is_not_known_is_refused() -> None:
    with worker({}) as url:
        options = SnapshotOptions(dsn="mariadb://reader@127.0.0.1:1/shop", connector=url)
        with pytest.raises(InputError, match=r"Kafka Connect answers 404.*snapshot\.connector"):
            mark_log(options)
    with pytest.raises(UnavailableError, match="Kafka Connect does not answer"):
        mark_log(options)


def test_a_log_of_several_domains_is_refused() -> None:
    with pytest.raises(Misfit, match=r"several domains \(0, 7\)"):
        only_gtid("0-1-5,7-1-3", {"gtid_domain_id": "0"})
    with pytest.raises(Misfit, match=r"of domain 7, and the server writes domain 0"):
        only_gtid("7-1-3", {"gtid_domain_id": "0"})
    assert only_gtid("", {"gtid_domain_id": "3"}) == Gtid(3, None, 0)


def test_the_mark_of_mysql_is_the_end_of_its_log(
    mysql: LocalMySql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", mysql.password)
    answers = {"/connectors/shop/config": CONFIG}
    mysql.execute("CREATE TABLE IF NOT EXISTS mysql.marks (id int AUTO_INCREMENT PRIMARY KEY)")
    with worker(answers) as url, mysql.connect() as connection, connection.cursor() as cursor:

        def end() -> str:
            cursor.execute(log_status(connection))
            [(name, offset, *_)] = cursor.fetchall()
            return file_position(file_number(name), offset)

        options = SnapshotOptions(dsn=mysql.dsn("mysql"), connector=url)
        first = mark_log(options)
        mysql.execute("INSERT INTO mysql.marks VALUES ()")
        # Other tests write to the same log.
        before, second, after = end(), mark_log(options), end()
    assert first.position < before <= second.position <= after
    assert (first.position, first.through) < (second.position, second.through)
    assert first.at <= second.at
    name, _, offset = second.text.partition(":")
    assert second.position == file_position(file_number(name), int(offset))
