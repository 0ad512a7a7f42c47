"""MariaDB and MySQL as they come: what a client meets, and what a folder keeps."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pymysql
import pytest

from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from hybrid_extensions.servers.databases.mysql import LocalMySql
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from tests.services.processes import runs, wait_for

pytestmark = pytest.mark.slow

OWNER = """
import sys, time
from {module} import {kind}
server = {kind}()
server.start()
print(server._process.pid, flush=True)
time.sleep(600)
"""
KINDS = [LocalMariaDb, LocalMySql]


def ask(server: MySqlServer, query: str) -> Any:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()


@pytest.mark.parametrize("kind", KINDS)
def test_mysql_logs_rows_and_asks_for_a_password(kind: type[MySqlServer]) -> None:
    with kind() as server:
        query = "SELECT @@version, @@log_bin, @@binlog_format, @@binlog_row_image"
        version, *log = ask(server, query)
        assert ("MariaDB" in version) == (kind is LocalMariaDb)
        assert log == [1, "ROW", "FULL"]
        server.password = "another"
        with pytest.raises(pymysql.OperationalError, match="Access denied"):
            server.connect()


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_keeps_its_data_also_through_a_kill(
    kind: type[MySqlServer], tmp_path: Path
) -> None:
    with kind(tmp_path) as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        server.execute("INSERT INTO shop.t VALUES (1)")
    with kind(tmp_path, {"innodb-flush-log-at-trx-commit": "1"}) as server:
        server.execute("INSERT INTO shop.t VALUES (2)")
        port = server.port
        server.kill()
        with pytest.raises(pymysql.OperationalError):
            server.connect()
        server.start()
        assert server.port == port
        assert ask(server, "SELECT count(*) FROM shop.t") == (2,)


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_server_removes_its_temporary_tables_at_a_start(kind: type[MySqlServer]) -> None:
    with kind() as first, kind() as second:
        assert ask(first, "SELECT @@tmpdir") != ask(second, "SELECT @@tmpdir")


@pytest.mark.parametrize("kind", KINDS)
def test_mysql_ends_with_the_process_that_started_it(kind: type[MySqlServer]) -> None:
    root = Path(__file__).parents[2]
    program = OWNER.format(module=kind.__module__, kind=kind.__name__)
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        guard = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_for(lambda: not runs(guard), "the server's end", 60)


def test_transactions_of_each_mysql_have_gtids_of_its_own() -> None:
    with LocalMySql() as first, LocalMySql() as second:
        places = []
        for server in (first, second):
            before = ask(server, "SELECT @@gtid_executed")
            server.execute("CREATE DATABASE shop")
            after = ask(server, "SELECT @@gtid_executed")
            assert before != after
            places.append(after[0].partition(":")[0])
        assert places[0] != places[1]
