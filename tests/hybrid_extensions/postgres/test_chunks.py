"""Key ranges of a real PostgreSQL table are in the order of the key, whatever its name."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division
from hybrid_extensions.postgres.chunks import divide, where
from hybrid_extensions.postgres.compared_rows import bound_after
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from tests.services.captured_database import own_database

pytestmark = pytest.mark.slow
_SINK = Sink.model_validate({"path": "out", "mode": "merge", "key": ["bound"]})


def test_rows_after_the_last_bound_are_divided_and_a_few_are_no_chunk(
    postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with own_database(postgres) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (bound bigint PRIMARY KEY)")
        connection.execute("INSERT INTO t SELECT generate_series(1, 120)")
        options = SnapshotOptions(dsn=dsn, slot="shop", chunk_rows=50)
        table = CapturedTable("snapshot", "public.t", options, {"bound": "bigint"}, [], _SINK)
        # Without statistics it is one chunk.
        assert divide(connection, table) == Division(None, [])
        connection.execute("ANALYZE t")
        known = divide(connection, table)
        assert len(known.bounds) == 2
        last = int(known.bounds[-1])
        connection.execute("INSERT INTO t SELECT generate_series(121, 1080)")
        more = [str(last + 50 * n) for n in range(1, (1080 - last) // 50)]
        assert divide(connection, table, known) == known._replace(bounds=[*known.bounds, *more])
        # In the order of numbers, not of texts.
        assert bound_after(dsn, "public.t", "bound", "true", 99) == "100"


@pytest.mark.parametrize("name", ["integers", "texts"])
def test_a_large_table_has_chunks_of_the_declared_rows_if_its_key_is_an_integer(
    postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with own_database(postgres) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        kind, value = {"integers": ("bigint", "n * 7 - 900"), "texts": ("text", "n::text")}[name]
        connection.execute(f"CREATE TABLE t (bound {kind} PRIMARY KEY)")
        connection.execute(f"INSERT INTO t SELECT {value} FROM generate_series(1, 20000) AS n")
        connection.execute("ANALYZE t")
        options = SnapshotOptions(dsn=dsn, slot="shop", chunk_rows=50)
        table = CapturedTable("snapshot", "public.t", options, {"bound": kind}, [], _SINK)
        division = divide(connection, table)
        counts = []
        for chunk in range(len(division.bounds) + 1):
            rows = sql.SQL("SELECT count(*) FROM t WHERE {}").format(where(division, chunk))
            counts += connection.execute(rows).fetchall()
    sizes = [count for (count,) in counts]
    assert sum(sizes) == 20_000
    # Statistics have a hundred ranges of 200 rows.
    assert max(sizes) <= (55 if name == "integers" else 205)
