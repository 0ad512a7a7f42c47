"""Workloads of others, before, during and after the snapshot: sysbench's, and pgbench's.

The commands are those that people type; the tables are compared with the database's own dump.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.process import HOST
from hybrid_extensions.servers.server_programs import POSTGRESQL, SYSBENCH, obtain
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import CdcCase
from tests.e2e.changes.tables_file import TablesFile

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]
_TABLES = 2
_EVENTS = 1500


@contextmanager
def busy(command: Sequence[str], environment: dict[str, str]) -> Iterator[None]:
    """A program that runs in the meantime, and to its end."""
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            yield
            printed, _ = running.communicate()
        finally:
            running.kill()
    assert running.returncode == 0, printed


def check(shop: TablesFile, load: Sequence[str], environment: dict[str, str]) -> None:
    """All tables equal those of the database, which the load changes until they are live."""
    path = str(shop.path)
    try:
        with busy(load, environment):
            status, text = shop.run("run", path, "--until", "live")
            assert status == 0, text
        for words in (["run", path, "--until", "caught-up"], ["compare", path], ["audit", path]):
            status, text = shop.run(*words)
            assert status == 0, text
    finally:
        shop.end()


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_of_sysbench(kind: str, request: pytest.FixtureRequest) -> None:
    case: BinlogCase = request.getfixturevalue(f"{kind}_case")
    programs = obtain(SYSBENCH)
    scripts = programs.root / "usr" / "share" / "sysbench"
    (plugins,) = programs.root.glob("usr/lib/*/libmariadb3/plugin")
    environment = {"LUA_PATH": f"{scripts}/?.lua", "MARIADB_PLUGIN_DIR": str(plugins)}
    command = [
        *(str(programs.paths["sysbench"]), str(scripts / "oltp_read_write.lua")),
        *("--db-driver=mysql", f"--mysql-host={HOST}", f"--mysql-port={case.server.port}"),
        *("--mysql-user=hybrid", f"--mysql-password={case.server.password}"),
        *(f"--mysql-db={case.name}", f"--tables={_TABLES}", "--table-size=2000", "--threads=4"),
    ]
    with busy([*command, "prepare"], environment):
        pass
    names = [f"sbtest{number}" for number in range(1, _TABLES + 1)]
    case.capture(names, heartbeat_interval_ms="500", connect_keep_alive_interval_ms="2000")
    case.wait_until_confirmed()
    database = {"dsn": case.dsn, "connector": case.connector}
    shop = TablesFile(case.folder, case.name, database, case.servers, schema=case.name)
    # A few transactions a second, so that they last until all are live.
    load = [*command, f"--events={_EVENTS}", "--time=0", "--rate=20", "run"]
    check(shop, load, environment)


def test_of_pgbench(case: CdcCase, postgres: LocalPostgres, connect: Connectors) -> None:
    programs = obtain(POSTGRESQL)
    (program,) = programs.root.glob("usr/lib/postgresql/*/bin/pgbench")
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, programs.libraries))}
    environment = {**libraries, "PGPASSWORD": postgres.password}
    with busy([str(program), "-i", "-s", "1", "-q", case.dsn], environment):
        pass
    tables = [f"public.pgbench_{name}" for name in ("accounts", "branches", "tellers", "history")]
    case.capture(tables, snapshot_mode="no_data")
    database = {"dsn": case.dsn, "slot": case.name, "connector": connect.url(case.name)}
    shop = TablesFile(case.folder, case.name, database, case.servers)
    shop.document["tables"] = {"include": ["public.pgbench_*"]}
    shop.document["database"]["chunk_rows"] = 50_000
    shop.write()
    _, text = shop.run("tables", str(shop.path))
    assert "public.pgbench_history: not captured, as it has no primary key" in text
    clients = ["-c", "4", "-t", str(_EVENTS // 4), "-R", "20", "-n"]
    check(shop, [str(program), *clients, case.dsn], environment)
