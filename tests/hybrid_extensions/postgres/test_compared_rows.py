"""Rows of a real PostgreSQL table, as a comparison reads them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import psycopg
import pytest

from hybrid_extensions.postgres.compared_rows import write_rows
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.services.captured_database import own_database

pytestmark = pytest.mark.slow


def test_a_row_of_many_megabytes_is_read(
    tmp_path: Path, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with own_database(postgres) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, photo bytea)")
        connection.execute("INSERT INTO t VALUES (1, repeat('x', 20000000)::bytea)")
        columns = {"id": "int", "photo": "binary"}
        query = write_rows(dsn, "public.t", columns, tmp_path / "rows.csv")
    read = f"SELECT id, octet_length(photo) FROM ({query})"
    assert duckdb.connect().execute(read).fetchall() == [(1, 20_000_000)]
