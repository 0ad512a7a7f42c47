"""Databases of each worker's own: these tests compare positions to the last transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
    from hybrid_extensions.servers.databases.mysql import LocalMySql
    from hybrid_extensions.servers.databases.postgres import LocalPostgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A real PostgreSQL that nobody else changes."""
    from hybrid_extensions.servers.databases.postgres import LocalPostgres

    with LocalPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[LocalMariaDb]:
    """A real MariaDB that nobody else changes."""
    from hybrid_extensions.servers.databases.mariadb import LocalMariaDb, add_client_to_path

    add_client_to_path()
    with LocalMariaDb() as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[LocalMySql]:
    """A real MySQL that nobody else changes."""
    from hybrid_extensions.servers.databases.mariadb import add_client_to_path
    from hybrid_extensions.servers.databases.mysql import LocalMySql

    add_client_to_path()
    with LocalMySql() as server:
        yield server
