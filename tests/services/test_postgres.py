from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.services.processes import runs, wait_for

OWNER = """
import sys, time
from hybrid_extensions.servers.databases.postgres import LocalPostgres
server = LocalPostgres()
server.start()
print(server._process.pid, flush=True)
time.sleep(600)
"""


def test_postgres_decodes_its_log_and_asks_for_a_password(postgres: LocalPostgres) -> None:
    with psycopg.connect(postgres.dsn, password=postgres.password) as connection:
        found = connection.execute("SELECT current_setting('wal_level')").fetchone()
    assert found == ("logical",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.dsn, password="another")


def test_postgres_ends_with_the_process_that_started_it() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=root, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        guard = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_for(lambda: not runs(guard), "the server's end", 60)


def test_after_a_kill_it_has_what_was_committed_at_the_same_address(tmp_path: Path) -> None:
    with LocalPostgres(tmp_path) as server:
        before = server.dsn
        with psycopg.connect(before, password=server.password) as open_one:
            with psycopg.connect(before, password=server.password) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
            open_one.execute("INSERT INTO kept VALUES (2)")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                open_one.execute("SELECT 1")
        server.start()
        assert server.dsn == before
        with psycopg.connect(server.dsn, password=server.password) as connection:
            assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]
