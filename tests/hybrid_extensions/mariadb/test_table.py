"""A table of a real MariaDB is read as of known positions of its binary log, or refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hybrid_extensions.cdc.databases.captured_table import Misfit, QueryError
from hybrid_extensions.mariadb.server import connect, parse_address
from hybrid_extensions.mariadb.snapshot.capture_checks import (
    check_log,
    log_status,
    server_variables,
)
from hybrid_extensions.mariadb.snapshot.table import export, open_table
from hybrid_extensions.mariadb.tables import find_tables
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from sources.common.database_snapshot import BinlogSnapshot
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import HybridError, InputError, UnavailableError
from tests.hybrid_extensions.mariadb.table_case import COLUMNS, Case, read
from tests.services.binlog_reader import binlog_reader

pytestmark = pytest.mark.slow


@pytest.fixture
def case(mariadb: LocalMariaDb) -> Iterator[Case]:
    made = Case(mariadb)
    with binlog_reader(mariadb):
        yield made
    mariadb.execute(f"DROP DATABASE {made.name}")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", "seq * 7"),
        ("varchar(20) collate utf8mb4_general_ci", "concat(char(65 + seq % 57), seq, '''')"),
        ("varbinary(8)", "unhex(lpad(hex(seq * 1000), 8, '0'))"),
        ("datetime(6)", "'2024-01-01' + interval seq second"),
        ("decimal(20,3)", "seq / 8 - 50"),
        ("float", "seq"),
    ],
    ids=lambda text: text.split("(")[0],
)
def test_chunks_hold_each_row_once_whatever_the_key(case: Case, kind: str, value: str) -> None:
    case.execute(
        f"CREATE TABLE t (k {kind}, line int, id bigint, v text, PRIMARY KEY (k, line))",
        f"INSERT INTO t SELECT {value}, line, seq, 'x' FROM seq_1_to_300, "
        "(SELECT 1 AS line UNION SELECT 2) l",
    )
    # The key of the target is one that the transform makes.
    table = replace(case.table(key=("place",), chunk_rows=50), ignored=["k", "line"])
    with open_table(table) as opened:
        rows = read(opened)
        chunks = len(opened.divide().bounds) + 1
    assert sorted(row["id"] for row in rows) == sorted([*range(1, 301), *range(1, 301)])
    assert chunks == (1 if kind == "float" else 12)


def test_rows_that_the_table_gets_later_divide_the_last_chunk_further(case: Case) -> None:
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        "INSERT INTO t SELECT seq, 'x' FROM seq_1_to_120",
    )
    table = case.table(chunk_rows=50)
    with open_table(table) as opened:
        opened.readers(1)
        known = opened.divide()
    assert known.bounds == ["51", "101"]
    # A few are no chunk of their own.
    case.execute("INSERT INTO t SELECT seq, 'x' FROM seq_121_to_160")
    with open_table(table) as opened:
        opened.readers(1)
        assert opened.divide(known) == known
    case.execute("INSERT INTO t SELECT seq, 'x' FROM seq_161_to_290")
    with open_table(table) as opened:
        [reader] = opened.readers(1)
        more = opened.divide(known)
        read_rows = [
            row["id"]
            for chunk in range(len(more.bounds) + 1)
            for batch in reader.rows(more, chunk)
            for row in batch.to_pylist()
        ]
    assert more.bounds == ["51", "101", "151", "201"]
    assert read_rows == list(range(1, 291))


def test_readers_see_the_database_as_of_their_positions_while_others_write(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(20))")
    stop = threading.Event()

    def write() -> None:
        with case.server.connect(case.name) as connection, connection.cursor() as cursor:
            number = 0
            while not stop.is_set():
                number += 1
                cursor.execute(f"INSERT INTO t VALUES ({number}, @@gtid_current_pos)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            with open_table(case.table()) as opened:
                readers = opened.readers(4)
                positions = [each.snapshot for each in readers]
                assert all(isinstance(each, BinlogSnapshot) for each in positions)
                division = opened.divide()
                counts = [
                    sum(batch.num_rows for batch in each.rows(division, 0)) for each in readers
                ]
            numbers = [each.sequence for each in positions if isinstance(each, BinlogSnapshot)]
            assert numbers == sorted(numbers)
            # One transaction a row: the sequence number says how many rows there are.
            others = {number - rows for number, rows in zip(numbers, counts, strict=True)}
            assert len(others) == 1
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    ("definition", "columns", "said"),
    [
        ("id bigint, v text", COLUMNS, "has no primary key"),
        ("id bigint PRIMARY KEY, v text) ENGINE = MyISAM -- ", COLUMNS, "of the engine MyISAM"),
        (
            "id bigint PRIMARY KEY, v text) WITH SYSTEM VERSIONING -- ",
            COLUMNS,
            "no plain table but `SYSTEM VERSIONED`",
        ),
        ("id bigint PRIMARY KEY, v uuid", COLUMNS, "which Debezium can't capture: list it in"),
        (
            "id bigint unsigned PRIMARY KEY, v text",
            COLUMNS,
            r"declare decimal\(20,0\), and set `bigint.unsigned.handling.mode=precise`",
        ),
        ("id bigint PRIMARY KEY, v float", {**COLUMNS, "v": "double"}, "declare float"),
        ("id bigint PRIMARY KEY, v time", {**COLUMNS, "v": "string"}, "declare bigint"),
        ("id bigint PRIMARY KEY, v enum('a,b','c')", COLUMNS, "a backslash before commas"),
        ("id bigint PRIMARY KEY", COLUMNS, "has no column `v`"),
        ("id bigint PRIMARY KEY, v text, w text", COLUMNS, "has a column `w` that"),
        (
            "id bigint PRIMARY KEY, v text, p bigint, FOREIGN KEY (p) REFERENCES parent (id) "
            "ON DELETE SET NULL",
            {**COLUMNS, "p": "bigint"},
            "the binary log does not contain such changes",
        ),
    ],
)
def test_a_table_whose_changes_would_be_lost_is_refused(
    case: Case, definition: str, columns: dict[str, str], said: str
) -> None:
    case.execute("CREATE TABLE parent (id bigint PRIMARY KEY)", f"CREATE TABLE t ({definition})")
    with pytest.raises(InputError, match=said) as caught, open_table(case.table(columns=columns)):
        pass
    assert caught.value.hint


@pytest.mark.parametrize("name", ["parent", "T", "other"])
def test_what_is_no_table_of_this_name_is_refused(case: Case, name: str) -> None:
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)", "CREATE VIEW parent AS SELECT * FROM t"
    )
    said = "but `VIEW`" if name == "parent" else f"There is no table `{case.name}.{name}`"
    with pytest.raises(InputError, match=said), open_table(case.table(name)):
        pass


@pytest.mark.parametrize(
    ("variable", "value", "usual"),
    [
        ("binlog_format", "MIXED", "ROW"),
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("log_bin_compress", "ON", "OFF"),
    ],
)
def test_a_log_that_lacks_rows_is_refused(
    case: Case, variable: str, value: str, usual: str
) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    case.server.execute(f"SET GLOBAL {variable} = '{value}'")
    try:
        said = rf"has `{variable}={value}`: .*\. Set `{variable}={usual}`"
        with pytest.raises(InputError, match=said), open_table(case.table()):
            pass
    finally:
        case.server.execute(f"SET GLOBAL {variable} = '{usual}'")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"log_bin": "OFF"}, "it writes no binary log"),
        ({"log_slave_updates": "OFF", "gtid_slave_pos": "0-2-7"}, "is, or was, a replica, and has"),
    ],
)
def test_a_server_without_a_log_of_all_changes_is_refused(
    case: Case, changed: dict[str, str], said: str
) -> None:
    with (
        connect(parse_address(case.server.dsn(case.name)), "s") as connection,
        pytest.raises(InputError, match=said),
    ):
        check_log(connection, case.table(), {**server_variables(connection), **changed})


def test_a_prepared_transaction_is_refused(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    refused = pytest.raises(InputError, match="are prepared")
    with case.prepared(), refused, open_table(case.table()):
        pass


def test_one_that_is_prepared_while_the_table_is_checked_is_refused(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    with (
        open_table(case.table()) as opened,
        case.prepared(),
        pytest.raises(InputError, match="are prepared"),
    ):
        opened.readers(2)


def test_a_binary_log_of_two_domains_is_refused() -> None:
    # A server keeps its domains.
    with LocalMariaDb() as server, binlog_reader(server):
        case = Case(server)
        case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
        case.execute("SET gtid_domain_id = 7", "INSERT INTO t VALUES (1, 'x')")
        with open_table(case.table()) as opened, pytest.raises(InputError, match=r"\(0, 7\)"):
            opened.readers(1)


def test_rights_that_are_missing_are_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    user = f"r{case.name[-8:]}"
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'geheim'",
        f"GRANT INSERT ON {case.name}.t TO {user}@'127.0.0.1'",
    )
    monkeypatch.setenv("MYSQL_PWD", "geheim")
    table = case.table(user=user)

    def error() -> str:
        with pytest.raises((HybridError, QueryError)) as caught, open_table(table):
            pass
        assert "geheim" not in str(caught.value)
        return str(caught.value)

    assert "GRANT BINLOG MONITOR ON" in error()
    case.server.execute(f"GRANT BINLOG MONITOR ON *.* TO {user}@'127.0.0.1'")
    assert "SELECT command denied" in error()
    case.server.execute(f"GRANT SELECT ON {case.name}.* TO {user}@'127.0.0.1'")
    assert "no connector is seen" in error()
    case.server.execute(f"GRANT PROCESS ON *.* TO {user}@'127.0.0.1'")
    with open_table(table) as opened:
        assert read(opened) == []
    monkeypatch.setenv("MYSQL_PWD", "other")
    assert "MYSQL_PWD" in error()


def test_a_server_that_is_not_there_is_unavailable(case: Case) -> None:
    options = SnapshotOptions(dsn="mariadb://reader@127.0.0.1:1/shop")
    table = replace(case.table(), options=options)
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 failed"), open_table(table):
        pass


def test_a_connection_that_ends_is_told_from_a_query_that_is_refused(case: Case) -> None:
    case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x')")

    def kill() -> None:
        query = "SELECT concat('KILL ', id) FROM information_schema.processlist WHERE db = %s"
        with case.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query, [case.name])
            for (statement,) in cursor.fetchall():
                cursor.execute(statement)

    def read_after_that() -> None:
        with open_table(case.table()) as opened:
            [reader] = opened.readers(1)
            division = opened.divide()
            kill()
            next(reader.rows(division, 0))

    with pytest.raises(QueryError) as caught:
        read_after_that()
    assert caught.value.is_connection_lost


@pytest.mark.parametrize(
    ("kind", "values", "declared", "said"),
    [
        ("date not null", ["'0000-00-00'"], "date", "zero date, which Debezium reports as 1970"),
        ("timestamp null", ["'0000-00-00'"], "timestamp", "zero date"),
        ("tinyint(1)", ["2"], "boolean", "is no boolean"),
        ("bigint", ["9999999999"], "int", "is no int"),
        ("date", ["'0000-01-01'"], "date", "not in year 1 to 9999"),
        ("bit(64)", ["b'1' << 63"], "bigint", "is no bigint"),
    ],
)
def test_values_that_changes_would_report_otherwise_are_refused(
    case: Case, kind: str, values: list[str], declared: str, said: str
) -> None:
    case.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, v {kind})", "SET sql_mode = ''")
    with case.server.connect(case.name) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for number, value in enumerate(values):
            cursor.execute(f"INSERT INTO t VALUES ({number}, {value})")
    with (
        open_table(case.table(columns={**COLUMNS, "v": declared})) as opened,
        pytest.raises(Misfit, match=said),
    ):
        read(opened)


def test_a_key_with_a_collation_is_said(case: Case) -> None:
    case.execute("CREATE TABLE t (v varchar(9) PRIMARY KEY, id bigint DEFAULT 7)")
    with open_table(case.table(key=("v",))) as opened:
        first, second = opened.warnings
    assert "defaults for columns that may be null (id)" in first
    assert "'a' and 'A' are one key" in second


@pytest.mark.parametrize(
    ("version", "statement"),
    [
        ("8.0.36", "SHOW MASTER STATUS"),
        ("8.4.3-log", "SHOW BINARY LOG STATUS"),
        ("9.1.0", "SHOW BINARY LOG STATUS"),
        ("10.11.14-MariaDB-0+deb12u2", "SHOW MASTER STATUS"),
    ],
)
def test_mysql_is_asked_in_the_words_of_its_version(version: str, statement: str) -> None:
    assert log_status(version) == statement


ALL_TYPES = {
    "tiny": ("tinyint(1)", "tinyint"),
    "small": ("smallint unsigned", "int"),
    "medium": ("mediumint", "int"),
    "whole": ("int unsigned", "bigint"),
    "big": ("bigint unsigned", "decimal(20,0)"),
    "price": ("decimal(12,2)", "decimal(12,2)"),
    "single": ("float", "float"),
    "flag": ("bit(1)", "boolean"),
    "bits": ("bit(9)", "bigint"),
    "wide": ("bit(64)", "decimal(20,0)"),
    "year": ("year", "int"),
    "day": ("date", "date"),
    "moment": ("datetime(6)", "timestamp"),
    "span": ("time", "bigint"),
    "text": ("varchar(9)", "string"),
    "sort": ("enum('a','b')", "string"),
    "more": ("json", "string"),
    "bytes": ("blob", "binary"),
    "place": ("point", "binary"),
}


def test_tables_are_found_with_types_that_their_snapshots_take(case: Case) -> None:
    declared = ", ".join(f"`{name}` {kind}" for name, (kind, _) in ALL_TYPES.items())
    case.execute(
        f"CREATE TABLE t (b int, a varchar(9), {declared}, own uuid, digits decimal(60,2), "
        "odd enum('a,b'), twice int AS (b * 2) STORED, PRIMARY KEY (b, a))",
        "INSERT INTO t (a, b, tiny, wide) VALUES ('x', 1, 7, ~0)",
        "CREATE TABLE bare (n int)",
        "CREATE VIEW v AS SELECT * FROM t",
    )
    dsn = case.server.dsn(case.name)
    bare, found = find_tables(dsn, lambda name: name.startswith(f"{case.name}."))
    assert (found.name, found.key) == (f"{case.name}.t", ["b", "a"])
    types = {name: kind for name, (_, kind) in ALL_TYPES.items()}
    assert found.columns == {"b": "int", "a": "string", **types}
    assert sorted(found.left_out) == ["digits", "odd", "own", "twice"]
    assert "`column.exclude.list`" in found.left_out["own"]
    assert bare.key == []
    table = replace(case.table("t", found.columns), ignored=list(found.left_out))
    with open_table(table) as opened:
        [row] = read(opened)
    assert (row["b"], row["tiny"], row["wide"]) == (1, 7, 2**64 - 1)


def test_tables_that_share_a_snapshot_are_read_as_of_one_point_in_time(case: Case) -> None:
    columns = {"id": "bigint", "n": "bigint"}
    case.execute(
        *(f"CREATE TABLE {name} (id bigint PRIMARY KEY, n bigint)" for name in ("one", "two")),
        *(f"INSERT INTO {name} SELECT seq, 100 FROM seq_1_to_500" for name in ("one", "two")),
    )
    stop, moved = threading.Event(), threading.Event()

    def move() -> None:
        with case.server.connect(case.name) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("BEGIN")
                cursor.execute("UPDATE one SET n = n - 1")
                cursor.execute("UPDATE two SET n = n + 1")
                cursor.execute("COMMIT")
                moved.set()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        assert moved.wait(60), "no transaction has ended"
        tables = [case.table(name, columns, chunk_rows=100) for name in ("one", "two")]
        with export(tables[0]) as exported:
            sums, positions = [], []
            for table in tables:
                with open_table(replace(table, exported=exported)) as opened:
                    sums.append(sum(row["n"] for row in read(opened)))
                    positions += [each.snapshot for each in opened.readers(3)]
    finally:
        stop.set()
        mover.join()
    assert sum(sums) == 2 * 500 * 100
    assert sums[0] < 500 * 100
    assert set(positions) == {exported.snapshot}


def test_a_snapshot_to_share_is_refused_before_a_connector_reads_the_log(
    mariadb: LocalMariaDb,
) -> None:
    case = Case(mariadb)
    with pytest.raises(InputError, match="connector"), export(case.table()):
        pass
