"""A MariaDB or MySQL that goes silent is given up by each look, and named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.cdc.databases.captured_table import Division, QueryError
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.mariadb import compared_rows, table_look
from hybrid_extensions.mariadb import server as connections
from hybrid_extensions.mariadb.log import mariadb_log
from hybrid_extensions.mariadb.server import connect, parse_address
from hybrid_extensions.mariadb.snapshot.begin import begin
from hybrid_extensions.mariadb.snapshot.capture_checks import read_columns, server_variables
from hybrid_extensions.mariadb.snapshot.table import MariaDbReader
from hybrid_extensions.servers.process import free_ports
from sources.common.database_snapshot import BinlogSnapshot
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.declared_table import DeclaredTable
from sources.errors import InputError, UnavailableError
from tests.hybrid_extensions.mariadb.table_case import COLUMNS, Case
from tests.services.connect_worker import RUNNING, worker
from tests.services.network import Network

pytestmark = pytest.mark.slow
LIMIT_S = 0.5
SILENT = r"\(timed out\): it sent nothing for"


@pytest.fixture
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    # The network sees no words of MySQL, which are encrypted.
    made = Case(request.getfixturevalue(getattr(request, "param", "mariadb")))
    made.execute("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(200))")
    monkeypatch.setattr(table_look, "LOOK_S", LIMIT_S)
    monkeypatch.setattr(mariadb_log, "LOOK_S", LIMIT_S)
    monkeypatch.setattr(connections, "SILENCE_S", LIMIT_S)
    monkeypatch.setattr(connections, "LOOK_S", LIMIT_S)
    monkeypatch.setattr(compared_rows, "SILENCE_S", LIMIT_S)
    return made


@pytest.fixture
def network(case: Case) -> Iterator[Network]:
    with Network(case.server.port) as made:
        yield made


def through(network: Network, case: Case) -> str:
    return case.server.dsn(case.name).replace(f":{case.server.port}", f":{network.port}")


def test_a_look_at_the_table_says_so_and_keeps_what_was_known(case: Case, network: Network) -> None:
    table = case.table()
    options = SnapshotOptions(dsn=through(network, case))
    names = Names(COLUMNS, DeclaredTable(table=table.name))
    snapshot = BinlogSnapshot(file=1, offset=4, domain=0, sequence=1, taken_ms=0)
    topic: Any = SimpleNamespace(topic="changes")

    def look(before: TableWatch) -> TableWatch:
        asked = replace(table, options=options)
        return table_look.look_at_table(asked, topic, names, before, snapshot)

    known = look(TableWatch(looked_ms=1))
    network.silence_at(b"information_schema")
    silent = look(known)
    assert silent.unknown is not None
    assert "(timed out): it sent nothing for" in silent.unknown
    assert (silent.definition, silent.altered) == (known.definition, None)
    network.heal()
    assert look(silent) == known


@pytest.mark.parametrize("case", ["mariadb", "mysql"], indirect=True)
def test_a_server_that_accepts_a_connection_and_says_nothing_is_unavailable(
    case: Case, network: Network
) -> None:
    network.silence()
    with pytest.raises(UnavailableError, match=SILENT):
        connect(parse_address(through(network, case)), "snapshot", LIMIT_S)


def test_a_look_at_the_log_says_so(case: Case, network: Network) -> None:
    offset = {"file": "binlog.000001", "pos": 4}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": [{"offset": offset}]},
        "/connectors/shop/config": {"heartbeat.interval.ms": "1000"},
    }
    with worker(answers) as url:
        options = SnapshotOptions(dsn=through(network, case), connector=url)
        assert isinstance(mariadb_log.ask_log(options), Slot)
        network.silence_at(b"SHOW BINARY LOGS")
        found = mariadb_log.ask_log(options)
        assert isinstance(found, str)
        assert found.startswith("the server does not answer: ")
        assert "(timed out): it sent nothing for" in found


def test_a_snapshot_that_is_being_read_ends_with_a_lost_connection(
    case: Case, network: Network
) -> None:
    rows = ", ".join(f"({number}, 'row {number} {'x' * 150}')" for number in range(2000))
    case.execute(f"INSERT INTO t VALUES {rows}")
    address = parse_address(through(network, case))
    table = case.table()
    with connect(address, "snapshot") as connection:
        variables = server_variables(connection)
        columns, _ = read_columns(connection, table, ["id"])
    with ExitStack() as opened:
        [(snapshot, session)] = begin(table, address, variables, opened, 1)
        reader = MariaDbReader(snapshot, session, table, columns)
        network.silence_at(b"row 1900 ")
        with pytest.raises(QueryError, match=SILENT) as raised:
            list(reader.rows(Division(None, []), 0))
    assert raised.value.is_connection_lost


def test_a_comparison_waits_for_a_server_that_answers_others_and_for_no_other(
    case: Case, network: Network
) -> None:
    dsn, name = through(network, case), case.table().name
    case.execute("INSERT INTO t VALUES (5, 'x')")
    assert compared_rows.bound_after(dsn, name, "id", "id = 0 OR SLEEP(2)", 0) is None
    network.silence_at(b"id = 1")
    with pytest.raises(
        UnavailableError, match=r"it has sent nothing for 0\.5 s, nor does it answer"
    ):
        compared_rows.bound_after(dsn, name, "id", "id = 1", 0)


def test_a_comparison_whose_connection_ends_may_succeed_later_and_one_that_is_refused_not(
    case: Case, network: Network
) -> None:
    dsn, name = through(network, case), case.table().name
    with pytest.raises(InputError, match="ERROR 1146"):
        compared_rows.bound_after(dsn, f"{name}_other", "id", "true", 0)
    network.silence_at(b"id = 1")
    threading.Timer(LIMIT_S / 5, network.cut).start()
    with pytest.raises(UnavailableError, match="ERROR 2013"):
        compared_rows.bound_after(dsn, name, "id", "id = 1", 0)


@pytest.mark.parametrize("case", ["mariadb", "mysql"], indirect=True)
def test_a_comparison_with_a_server_that_is_not_there_may_succeed_later(case: Case) -> None:
    (port,) = free_ports(1)
    dsn = case.server.dsn(case.name).replace(f":{case.server.port}", f":{port}")
    with pytest.raises(UnavailableError, match=r"ERROR 200[23]"):
        compared_rows.bound_after(dsn, case.table().name, "id", "true", 0)
