"""The session that the tests of the whole project share, and a database for what they serve."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.e2e.conftest import spark as spark  # noqa: PLC0414 - the fixture
from tests.services.captured_database import own_database


@pytest.fixture(scope="session")
def hybrid_spark(spark: SparkSession) -> SparkSession:
    """A process can't have two sessions with different jars."""
    return spark


@pytest.fixture
def serving_dsn(postgres: LocalPostgres) -> Iterator[str]:
    with own_database(postgres) as dsn:
        yield dsn
