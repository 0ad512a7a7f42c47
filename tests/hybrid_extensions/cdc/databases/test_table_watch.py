"""A look at a captured table ends with an answer, whatever can't be read."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest

from hybrid_extensions.cdc.databases.altered_table import (
    RequiredColumn,
    TableWatch,
    keep_table_watch,
)
from hybrid_extensions.cdc.databases.table_watch import inspect_table
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import EndPosition
from tests.captured_table import captured_table
from tests.extensions import needs
from tests.sources.config.test_unchanged import CHANGES

pytestmark = [pytest.mark.slow, needs("postgres")]


def test_a_target_that_can_not_be_read_is_no_traceback(
    tmp_path: Path, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    table = f"t{uuid.uuid4().hex[:8]}"
    include = {**CHANGES["include"], "lsn": "lsn", "xid": "transaction"}
    database = {"dsn": postgres.dsn, "slot": "shop"}
    loaded = captured_table(tmp_path, database, f"public.{table}", include)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    end = EndPosition(
        source="snapshot",
        event_time_ms=1,
        complete_through_ms=1,
        event_times="exact",
        snapshot=PostgresSnapshot(xmin=1, xmax=1, in_progress=[], lsn=1, taken_ms=1),
        splits=1,
        rows=1,
    )
    generation.replace("positions/snapshot-end.json", end)
    required = RequiredColumn(table=table, column="v", since_ms=1)
    keep_table_watch(generation, TableWatch(looked_ms=1, required=[required]))
    log = Path(loaded.target.url) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    with psycopg.connect(postgres.dsn, password=postgres.password, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)")
        seen = inspect_table(loaded, generation)
        connection.execute(f"DROP TABLE {table}")
    assert seen is not None
    assert seen.altered is None
    assert seen.unknown
