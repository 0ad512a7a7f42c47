"""A database for what the tests of examples serve."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.services.captured_database import own_database


@pytest.fixture
def serving_dsn(postgres: LocalPostgres) -> Iterator[str]:
    with own_database(postgres) as dsn:
        yield dsn
