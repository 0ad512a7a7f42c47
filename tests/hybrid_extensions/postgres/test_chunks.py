"""Key ranges of a real PostgreSQL table are in the order of the key, whatever its name."""

from __future__ import annotations

import psycopg
import pytest

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division
from hybrid_extensions.postgres.chunks import divide
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
