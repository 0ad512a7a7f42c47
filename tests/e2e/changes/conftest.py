"""Databases whose changes are captured: the shop of the examples in PostgreSQL, MariaDB, MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hybrid_extensions.servers.connectors import Connectors
    from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
    from hybrid_extensions.servers.databases.mysql import LocalMySql
    from hybrid_extensions.servers.databases.postgres import LocalPostgres
    from tests.e2e.changes.binlog_case import BinlogCase
    from tests.e2e.changes.cdc_case import CdcCase


@pytest.fixture
def case(
    tmp_path: Path, postgres: LocalPostgres, servers: str, connect: Connectors
) -> Iterator[CdcCase]:
    from examples.shop import make_shop
    from tests.e2e.changes.cdc_case import CdcCase

    made = CdcCase(tmp_path, postgres, servers, connect)
    make_shop(made.dsn, 1000)
    yield made
    made.end()


@pytest.fixture
def mariadb_case(
    tmp_path: Path, mariadb: LocalMariaDb, servers: str, connect_mariadb: Connectors
) -> Iterator[BinlogCase]:
    from tests.e2e.changes.binlog_case import BinlogCase

    made = BinlogCase(tmp_path, mariadb, servers, connect_mariadb)
    yield made
    made.end()


@pytest.fixture
def mysql_case(
    tmp_path: Path, mysql: LocalMySql, servers: str, connect_mysql: Connectors
) -> Iterator[BinlogCase]:
    from tests.e2e.changes.binlog_case import BinlogCase

    made = BinlogCase(tmp_path, mysql, servers, connect_mysql)
    yield made
    made.end()
