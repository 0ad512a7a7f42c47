"""A table of a real MySQL is read as of a known position of its binary log, or refused by name."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest
import trustme

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.server import ask, connect, needs_public_key, parse_address
from hybrid_extensions.mariadb.snapshot import read_lock
from hybrid_extensions.mariadb.snapshot.table import open_table
from hybrid_extensions.mariadb.tables import find_tables
from hybrid_extensions.servers.databases.mysql import LocalMySql
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from sources.errors import HybridError, InputError
from tests.hybrid_extensions.mariadb.table_case import COLUMNS, Case, read
from tests.services.binlog_reader import binlog_reader

pytestmark = pytest.mark.slow


@pytest.fixture
def case(mysql: LocalMySql) -> Iterator[Case]:
    made = Case(mysql)
    with binlog_reader(mysql):
        yield made
    mysql.execute(f"DROP DATABASE {made.name}")


def version_of(server: MySqlServer) -> tuple[int, ...]:
    with server.connect() as connection:
        [(version,)] = ask(connection, "SELECT version()")
    return tuple(map(int, version.partition("-")[0].split(".")))


def refusal(table: CapturedTable) -> str:
    with pytest.raises(HybridError) as caught, open_table(table) as opened:
        opened.readers(1)
    return str(caught.value)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("ALTER USER a@b IDENTIFIED BY 'geheim'", "ALTER USER a@b IDENTIFIED BY '…'"),
        ("SELECT \"it's geheim\", '\\'geheim'", "SELECT '…', '…'"),
        ("INSERT INTO t VALUES ('geheim, and cut o", "INSERT INTO t VALUES ('…'"),
    ],
)
def test_no_value_of_another_sessions_statement_is_told(statement: str, shown: str) -> None:
    assert read_lock.without_values(statement) == shown


def test_a_table_is_found_and_read_by_the_unique_key_that_its_events_have(case: Case) -> None:
    case.execute(
        "CREATE TABLE plain (id int NOT NULL UNIQUE, v text)",
        "CREATE TABLE several (id int NOT NULL, v varchar(9) NOT NULL, w int, UNIQUE z (v, id), "
        "UNIQUE a (id))",
        "CREATE TABLE nullable (id int UNIQUE, v text)",
        "CREATE TABLE computed (id int NOT NULL, v text, UNIQUE ((id + 1)))",
        "CREATE TABLE prefix (id int, v text NOT NULL, UNIQUE (v(5)))",
        "INSERT INTO several SELECT i, 'x', 0 FROM JSON_TABLE('[1,2,3,4,5,6,7,8]', "
        "'$[*]' COLUMNS (i int PATH '$')) j",
    )
    found = {
        each.name.partition(".")[2]: each.key
        for each in find_tables(case.server.dsn(case.name), lambda t: t.startswith(case.name))
    }
    assert found == {
        "plain": ["id"],
        "several": ["v", "id"],
        "nullable": [],
        "computed": [],
        "prefix": ["v"],
    }
    several = {**COLUMNS, "w": "int"}
    said = refusal(case.table("several", several))
    assert "by the unique key `z`, and `sink.key` has other columns: id" in said
    assert "Declare `sink: {key: [v, id]}`" in said
    with open_table(case.table("several", several, key=("id", "v"), chunk_rows=3)) as opened:
        assert sorted(row["id"] for row in read(opened)) == list(range(1, 9))
    assert "no unique key whose columns are never null" in refusal(case.table("nullable"))


def test_a_key_that_does_not_identify_rows_is_refused(case: Case) -> None:
    case.execute("CREATE TABLE part (tenant int, id int, v varchar(9), PRIMARY KEY (tenant, id))")
    columns = {**COLUMNS, "tenant": "int"}
    assert "(id) does not identify a row" in refusal(case.table("part", columns))
    case.execute("ALTER TABLE part ADD UNIQUE (id)")
    with open_table(case.table("part", columns)) as opened:
        assert read(opened) == []
    case.execute("ALTER TABLE part ADD UNIQUE (v)")
    assert "(v) does not identify a row" in refusal(case.table("part", columns, key=("v",)))
    case.execute("ALTER TABLE part MODIFY v varchar(9) NOT NULL")
    # A column that the transform makes is none of the table's.
    for key in ("v", "number"):
        with open_table(case.table("part", columns, key=(key,))) as opened:
            assert read(opened) == []


def test_foreign_keys_that_change_rows_are_taken_where_the_log_has_these_changes(
    case: Case,
) -> None:
    case.execute(
        "CREATE TABLE parent (id bigint PRIMARY KEY)",
        "CREATE TABLE t (id bigint PRIMARY KEY, v text, p bigint, "
        "FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    table = case.table(columns={**COLUMNS, "p": "bigint"})
    if version_of(case.server) < (9, 6):
        assert "the binary log does not contain such changes" in refusal(table)
        return
    with open_table(table) as opened:
        assert read(opened) == []
    with LocalMySql(settings={"innodb-native-foreign-keys": "ON"}) as server:
        other = Case(server)
        other.execute(
            "CREATE TABLE parent (id bigint PRIMARY KEY)",
            "CREATE TABLE t (id bigint PRIMARY KEY, v text, p bigint, "
            "FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        )
        said = refusal(other.table(columns={**COLUMNS, "p": "bigint"}))
    assert "the binary log does not contain such changes" in said
    assert "Set `innodb_native_foreign_keys=OFF`" in said


def test_a_replica_that_does_not_log_what_it_replicates_is_refused() -> None:
    with LocalMySql(settings={"log-replica-updates": "OFF"}) as server, binlog_reader(server):
        case = Case(server)
        case.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
        with open_table(case.table()) as opened:
            assert read(opened) == []
        case.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1")
        assert "is a replica with `log_replica_updates=OFF`" in refusal(case.table())


def test_rights_that_are_missing_are_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    user = f"r{case.name[-8:]}"
    account = f"'{user}'@'127.0.0.1'"
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        f"CREATE USER {account} IDENTIFIED BY 'geheim'",
        f"GRANT SELECT ON {case.name}.* TO {account}",
    )
    monkeypatch.setenv("MYSQL_PWD", "geheim")
    table = case.table(user=user)
    for right in ("REPLICATION CLIENT", "XA_RECOVER_ADMIN"):
        assert f"Run `GRANT {right} ON *.* TO {account}`" in refusal(table)
        case.server.execute(f"GRANT {right} ON *.* TO {account}")
    assert "no connector is seen" in refusal(table)
    case.server.execute(f"GRANT PROCESS ON *.* TO {account}")
    assert f"Run `GRANT RELOAD ON *.* TO {account}`" in refusal(table)
    case.server.execute(f"GRANT RELOAD ON *.* TO {account}")
    with open_table(table) as opened:
        assert read(opened) == []
    case.server.execute(f"DROP USER {account}")


@contextmanager
def long_statement(case: Case) -> Iterator[None]:
    """A SELECT that reads a table for as long as the context."""
    begun = threading.Event()
    number: list[int] = []

    def select() -> None:
        with case.server.connect(case.name) as connection, connection.cursor() as cursor:
            number.append(connection.thread_id())  # type: ignore[no-untyped-call]
            begun.set()
            try:
                cursor.execute("SELECT count(*) FROM t WHERE sleep(600) = 0")
            except pymysql.MySQLError:
                return

    reader = threading.Thread(target=select)
    reader.start()
    begun.wait()
    try:
        yield
    finally:
        with case.server.connect() as other, other.cursor() as cursor:
            cursor.execute(f"KILL {number[0]}")
        reader.join()


def test_a_long_statement_holds_up_the_snapshot_and_nobody_who_writes(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        "INSERT INTO t VALUES (1, 'x')",
        "CREATE TABLE other (id int PRIMARY KEY)",
    )
    monkeypatch.setattr(read_lock, "TRIES", 2)
    with long_statement(case), case.server.connect(case.name) as writer, writer.cursor() as cursor:
        # A write that waits for longer fails.
        cursor.execute("SET SESSION lock_wait_timeout = 3")
        stop = threading.Event()
        failed: list[Exception] = []

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    cursor.execute(f"INSERT INTO other VALUES ({number})")
                except pymysql.MySQLError as error:
                    failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            with pytest.raises(InputError) as caught, open_table(case.table()) as opened:
                opened.readers(2)
        finally:
            stop.set()
            thread.join()
    assert failed == []
    assert caught.value.transient
    said = str(caught.value)
    assert "was not granted in 2 attempts of 1 s" in said
    assert "User hybrid at 127.0.0.1:" in said
    assert "`SELECT count(*) FROM t WHERE sleep(600) = 0`" in said
    assert "end it by `KILL " in said
    with open_table(case.table()) as opened:
        assert len(read(opened)) == 1


@pytest.fixture(scope="module")
def plain() -> Iterator[LocalMySql]:
    """A MySQL without TLS, whose users have not logged in yet."""
    with LocalMySql(settings={"tls-version": ""}) as server:
        yield server


LOGIN = """
import sys
if len(sys.argv) > 2:
    sys.modules["cryptography"] = None
from hybrid_extensions.mariadb.server import ask, connect, parse_address
from sources.errors import InputError
try:
    with connect(parse_address(sys.argv[1]), "snapshot") as connection:
        print(ask(connection, "SELECT 1"))
except InputError as error:
    print(error)
"""


def test_a_login_without_tls_needs_a_package_which_is_named_where_it_is_missing(
    plain: LocalMySql, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("one", "two"):
        plain.execute(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'geheim'")
    monkeypatch.setenv("MYSQL_PWD", "geheim")

    def login(user: str, *more: str) -> str:
        command = [sys.executable, "-c", LOGIN, plain.dsn("", user), *more]
        root = Path(__file__).parents[4]
        return subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    said = login("one", "without")
    assert "'cryptography' package is required" in said
    assert "pip install 'hybrid-backfill[mariadb]'" in said
    assert login("two") == "[(1,)]"
    assert needs_public_key(parse_address(plain.dsn("", "two")))


def test_certificates_are_read_once_and_again_once_their_file_is_another(
    mysql: LocalMySql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MYSQL_PWD", mysql.password)
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT concat(@@datadir, @@ssl_ca)")
        [(authority,)] = cursor.fetchall()
    file = tmp_path / "authority.pem"
    file.write_bytes(Path(authority).read_bytes())
    for dsn in (mysql.dsn(""), f"{mysql.dsn('')}?ssl_ca={file}&ssl_mode=verify_ca"):
        opened = [connect(parse_address(dsn), "snapshot") for _ in range(2)]
        first, second = (vars(each)["ctx"] for each in opened)
        assert first is second
        for each in opened:
            each.close()
    trustme.CA().cert_pem.write_to_path(str(file))
    with pytest.raises(InputError, match="self-signed certificate"):
        connect(parse_address(dsn), "snapshot")


def test_certificates_are_checked_with_or_without_the_name_in_them(
    mysql: LocalMySql, plain: LocalMySql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("MYSQL_PWD", mysql.password)
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT concat(@@datadir, @@ssl_ca)")
        [(authority,)] = cursor.fetchall()
    dsn = f"{mysql.dsn('')}?ssl_ca={authority}"
    with pytest.raises(InputError, match="mismatch, certificate is not valid") as caught:
        connect(parse_address(dsn), "snapshot")
    assert not caught.value.transient
    assert "add `&ssl_mode=VERIFY_CA`" in caught.value.hint
    address = parse_address(f"{dsn}&ssl_mode=verify_ca")
    connect(address, "snapshot").close()
    assert not needs_public_key(address)
    with pytest.raises(InputError, match="self-signed certificate") as caught:
        connect(address._replace(tls={"ssl_ca": str(tmp_path / "other.pem")}), "snapshot")
    assert "?ssl_ca=<file>" in caught.value.hint
    with pytest.raises(InputError, match=r"/none\.pem` in the database.s address .* is not a file"):
        connect(address._replace(tls={"ssl_ca": "/none.pem"}), "snapshot")
    without = address._replace(port=plain.port)
    with pytest.raises(InputError, match="the server doesn't support it"):
        connect(without, "snapshot")
