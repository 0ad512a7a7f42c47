"""Databases that feeds write to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.redis_server import LocalRedis


@pytest.fixture
def database(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """DSN of an empty database; the password is in the environment."""
    monkeypatch.setenv("SERVING_PASSWORD", postgres.password)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    name = f"serving_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.dsn, password=postgres.password, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.dsn.replace("dbname=postgres", f"dbname={name}")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[LocalRedis]:
    """A real Redis."""
    with LocalRedis() as server:
        yield server
