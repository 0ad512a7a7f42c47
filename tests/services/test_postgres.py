from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from services.postgres import LocalPostgres
from tests.services.processes import runs, wait_for

OWNER = """
import sys, time
from services.postgres import LocalPostgres
server = LocalPostgres()
server.start()
print(server._process.pid, flush=True)
time.sleep(600)
"""


def test_it_decodes_its_log_and_asks_for_a_password(postgres: LocalPostgres) -> None:
    with psycopg.connect(postgres.dsn, password=postgres.password) as connection:
        found = connection.execute("SELECT current_setting('wal_level')").fetchone()
    assert found == ("logical",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.dsn, password="another")


def test_it_ends_with_the_process_that_started_it() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=root, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        guard = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_for(lambda: not runs(guard), "the server's end", 60)
