"""A table of a real MySQL is read as its changes will be, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.captured_table import Misfit
from hybrid_extensions.mariadb.server import connect, parse_address
from hybrid_extensions.mariadb.snapshot.capture_checks import check_log, server_variables
from hybrid_extensions.mariadb.snapshot.table import open_table
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.errors import InputError
from tests.hybrid_extensions.mariadb.table_case import COLUMNS, Case, read
from tests.hybrid_extensions.mariadb.test_connector import MYSQL
from tests.services.connect_worker import RUNNING, worker

pytestmark = pytest.mark.slow


@pytest.fixture
def case(mysql: LocalMySql) -> Iterator[Case]:
    made = Case(mysql)
    yield made
    mysql.execute(f"DROP DATABASE {made.name}")


@pytest.fixture
def connector() -> Iterator[str]:
    answers = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": MYSQL,
        # Not known here: nothing tells that it is another server.
        "/connectors/shop/config": {"database.hostname": "db.invalid"},
    }
    with worker(answers) as url:
        yield url


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("json", "json_object('at', timestamp '2024-01-02 03:04:05')", r"03:04:05\.000000"),
        ("json", "json_array(cast('xyz' as binary))", "has a time or bytes in a JSON document"),
        ("enum('ä', 'ß😀')", "'ß😀'", "has the value 'ß😀'; in names of the type `enum`"),
        ("set('ä', '😀')", "'ä,😀'", "rename it, or make the column a varchar"),
    ],
)
def test_values_that_changes_would_report_otherwise_are_refused(
    case: Case, connector: str, kind: str, value: str, said: str
) -> None:
    case.execute(
        f"CREATE TABLE t (id bigint PRIMARY KEY, v {kind})", f"INSERT INTO t VALUES (1, {value})"
    )
    with (
        open_table(case.table(connector=connector)) as opened,
        pytest.raises(Misfit, match=said),
    ):
        read(opened)


def test_the_way_out_for_json_works(case: Case, connector: str) -> None:
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v json)",
        "INSERT INTO t VALUES (1, json_object('at', timestamp '2024-01-02 03:04:05'))",
        # A text that looks like one, and a decimal, are what they are.
        """INSERT INTO t VALUES (2, '["2024-01-02 03:04:05.000000", "base64:type253:eHl6"]')""",
        "INSERT INTO t VALUES (3, json_array(cast(repeat('12', 15) as decimal(30,0))))",
        "UPDATE t SET `v` = CAST(CAST(`v` AS CHAR) AS JSON) WHERE id = 1",
    )
    with open_table(case.table(connector=connector)) as opened:
        found = {row["id"]: row["v"] for row in read(opened)}
    assert found == {
        1: '{"at":"2024-01-02 03:04:05.000000"}',
        2: '["2024-01-02 03:04:05.000000","base64:type253:eHl6"]',
        3: f"[{'12' * 15}]",
    }


def test_a_snapshot_in_another_server_than_the_connectors_is_refused(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    config = {"database.hostname": "127.0.0.1", "database.port": str(case.server.port)}
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": MYSQL,
        "/connectors/shop/config": config,
    }
    with worker(answers) as url:
        table = case.table(connector=url)
        # The same server under another name.
        other_name = table.options.dsn.replace("127.0.0.1", "localhost")
        alias = replace(table, options=table.options.model_copy(update={"dsn": other_name}))
        for each in (table, alias):
            with open_table(each):
                pass
        with LocalMySql() as other:
            other.execute(f"ALTER USER hybrid@'127.0.0.1' IDENTIFIED BY '{case.server.password}'")
            config["database.port"] = str(other.port)
            said = rf"reads the log of 127\.0\.0\.1:{other.port}, which is another MySQL server"
            with pytest.raises(InputError, match=said), open_table(table):
                pass


def test_a_transaction_that_is_prepared_while_the_table_is_checked_is_refused(
    case: Case, connector: str
) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    with (
        open_table(case.table(connector=connector)) as opened,
        case.prepared(),
        pytest.raises(InputError, match="are prepared"),
    ):
        opened.readers(2)


def test_updates_of_parts_of_json_are_refused(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    with connect(parse_address(case.server.dsn(case.name)), "s") as connection:
        variables = server_variables(connection)
        # A compressed log is followed.
        check_log(connection, case.table(), variables)
        said = r"has `binlog_row_value_options=PARTIAL_JSON`: .* Set `binlog_row_value_options=`"
        changed = {**variables, "binlog_row_value_options": "PARTIAL_JSON"}
        with pytest.raises(InputError, match=said):
            check_log(connection, case.table(), changed)


@pytest.mark.parametrize(
    ("mode", "warned"),
    [("NO_ZERO_DATE,NO_ZERO_IN_DATE", []), ("NO_ZERO_DATE", ["(day, at) may get zero dates"])],
)
def test_zero_dates_that_changes_may_bring_are_said(
    case: Case, connector: str, mode: str, warned: list[str]
) -> None:
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, day date NOT NULL, at timestamp NULL, maybe date)"
    )
    columns = {**COLUMNS, "day": "date", "at": "timestamp", "maybe": "date"}
    del columns["v"]
    table = replace(case.table(connector=connector), columns=columns)
    [(before,)] = _ask(case, "SELECT @@global.sql_mode")
    case.server.execute(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        with open_table(table) as opened:
            assert len(opened.warnings) == len(warned)
            assert all(said in each for said, each in zip(warned, opened.warnings, strict=True))
    finally:
        case.server.execute(f"SET GLOBAL sql_mode = '{before}'")


def _ask(case: Case, query: str) -> list[tuple[str]]:
    with case.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
