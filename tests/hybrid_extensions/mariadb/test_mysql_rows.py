"""Rows of a real MySQL as the client prints them, over TLS."""

from __future__ import annotations

import uuid
from pathlib import Path

import duckdb
import pytest
import trustme

from hybrid_extensions.mariadb.compared_rows import write_rows
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.errors import InputError

pytestmark = pytest.mark.slow


def test_the_client_checks_a_certificate_without_its_name_where_that_is_declared(
    mysql: LocalMySql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MYSQL_PWD", mysql.password)
    name = f"shop_{uuid.uuid4().hex[:8]}"
    mysql.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id int PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (7)",
    )
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT concat(@@datadir, @@ssl_ca)")
        [(authority,)] = cursor.fetchall()

    def rows(file: str) -> list[tuple[int]]:
        dsn = f"{mysql.dsn(name)}?ssl_ca={file}&ssl_mode=VERIFY_CA"
        query = write_rows(dsn, f"{name}.t", {"id": "int"}, tmp_path / "rows")
        with duckdb.connect() as database:
            found: list[tuple[int]] = database.sql(query).fetchall()
            return found

    assert rows(authority) == [(7,)]
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with pytest.raises(InputError, match="self-signed certificate"):
        rows(str(tmp_path / "other.pem"))
