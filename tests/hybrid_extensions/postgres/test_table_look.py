"""A table whose changes no longer arrive, or no longer show all, asked of a real server."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.postgres.watch.publication import read_publication
from hybrid_extensions.postgres.watch.table_look import look_at_table
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.server_programs import POSTGRESQL, obtain
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.decoding.changes.declared_table import DeclaredTable
from tests.services.connect_worker import worker
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow
COLUMNS = {"id": "int", "v": "int"}
MERGE = Sink.model_validate({"path": "out", "mode": "merge", "key": ["id"]})


@pytest.fixture
def database(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a published table; the slot and the publication have its name."""
    name = f"shop_{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    dsn = postgres.dsn.replace("dbname=postgres", f"dbname={name}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute(f"CREATE PUBLICATION {name} FOR TABLE t")
        connection.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        yield dsn
        connection.execute(f"SELECT pg_drop_replication_slot('{name}')")


def look(
    dsn: str, before: TableWatch | None = None, connector: str | None = None, **declared: object
) -> TableWatch:
    slot = dsn.rpartition("=")[2].partition(" ")[0]
    options = SnapshotOptions(dsn=dsn, slot=slot, connector=connector)
    table = CapturedTable("snapshot", "public.t", options, COLUMNS, [], MERGE)
    names = Names(COLUMNS, DeclaredTable.model_validate({"table": "public.t", **declared}))
    topic: Any = SimpleNamespace(topic="shop.public.t")
    return look_at_table(table, topic, names, before or TableWatch(looked_ms=1))


def publication(dsn: str) -> str | None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return read_publication(connection, dsn.rpartition("=")[2].partition(" ")[0])


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER PUBLICATION {p} DROP TABLE t", "is in no publication"),
        ("ALTER PUBLICATION {p} SET (publish = 'insert')", "does not publish all inserts, updates"),
        ("ALTER PUBLICATION {p} SET TABLE t WHERE (v > 1)", "has a row filter for table"),
        ("ALTER TABLE t REPLICA IDENTITY NOTHING", "REPLICA IDENTITY NOTHING now"),
        ("DROP TABLE t", "is no longer there"),
        ("ALTER TABLE t RENAME TO u", "is no longer there"),
        ("ALTER TABLE t ALTER v TYPE smallint", "`v` of type smallint now"),
        ("CREATE TABLE child () INHERITS (t)", "Other tables inherit from table"),
    ],
)
def test_what_is_found_stays_a_finding_with_a_way_out(
    database: str, statement: str, expected: str
) -> None:
    before = look(database)
    assert (before.unknown, before.altered) == (None, None)
    assert look(database, before).altered is None
    execute(database, statement.format(p=database.rpartition("=")[2].partition(" ")[0]))
    altered = look(database, before).altered
    assert altered is not None
    error = altered.error()
    assert expected in error.message
    assert "`hybrid rerun P`" in error.hint


def test_columns_that_come_and_go_are_left_to_the_changes_but_not_what_takes_their_name(
    database: str,
) -> None:
    execute(database, "ALTER TABLE t ADD x int", "ALTER TABLE t RENAME v TO pieces")
    first = look(database)
    assert first.altered is None
    renamed = look(database, first, renamed_columns={"v": "pieces"})
    assert renamed.altered is None
    execute(database, "ALTER TABLE t ALTER pieces TYPE smallint")
    narrow = look(database, renamed, renamed_columns={"v": "pieces"}).altered
    assert narrow is not None
    assert "`pieces` of type smallint now, which was integer" in narrow.what


def test_a_name_that_moves_from_one_column_to_another_between_looks_is_found(
    database: str,
) -> None:
    before = look(database)
    execute(database, "ALTER TABLE t ADD w int", "ALTER TABLE t RENAME v TO old")
    between = look(database, before)
    assert between.altered is None
    execute(database, "ALTER TABLE t RENAME w TO v")
    altered = look(database, between).altered
    assert altered is not None
    assert "another column named `v`" in altered.what


def test_a_table_that_left_the_connectors_publication_or_lists_is_found(database: str) -> None:
    name = database.rpartition("=")[2].partition(" ")[0]
    config = {"topic.prefix": "shop", "publication.name": name, "table.include.list": "public.t"}
    answers: dict[str, Any] = {"/connectors/shop/config": config}
    execute(database, "CREATE PUBLICATION analytics FOR ALL TABLES")
    with worker(answers) as url:
        before = look(database, connector=url)
        assert (before.unknown, before.altered, before.prefix) == (None, None, "shop")
        answers["/connectors/shop/config"] = {**config, "table.include.list": "public.u"}
        unlisted = look(database, before, url).altered
        assert unlisted is not None
        assert "`table.include.list` of the connector is `public.u`" in unlisted.what
        answers["/connectors/shop/config"] = config
        execute(database, f"ALTER PUBLICATION {name} SET TABLE t WHERE (v > 1)")
        filtered = look(database, before, url).altered
        assert filtered is not None
        assert f"Publication `{name}` has a row filter" in filtered.what
        execute(database, f"ALTER PUBLICATION {name} DROP TABLE t")
        unpublished = look(database, before, url).altered
        assert unpublished is not None
        assert f"is not in publication `{name}`, which the connector reads" in unpublished.what
    # Without an answer of Kafka Connect any publication counts.
    assert look(database, before, url).altered is None


def test_without_a_connector_the_publication_is_the_one_that_the_slot_is_read_by(
    database: str, tmp_path: Path
) -> None:
    name = database.rpartition("=")[2].partition(" ")[0]
    execute(database, "CREATE PUBLICATION analytics FOR ALL TABLES")
    before = look(database)
    program = str(obtain(POSTGRESQL).paths["postgres"].with_name("pg_recvlogical"))
    command = [program, "-d", database, "-S", name, "--start", "-o", "proto_version=1"]
    command += ["-o", f'publication_names="{name}"', "-f", str(tmp_path / "changes")]
    reader = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: publication(database) == name, "the reader")
        assert look(database, before).altered is None
        execute(database, f"ALTER PUBLICATION {name} DROP TABLE t")
        altered = look(database, before).altered
        assert altered is not None
        assert f"is not in publication `{name}`, which the connector reads" in altered.what
    finally:
        reader.terminate()
        reader.wait()
    # Nobody reads it now, so any publication counts.
    wait_for(lambda: publication(database) is None, "the end of the reader")
    assert look(database, before).altered is None


def test_a_server_that_does_not_answer_or_refuses_is_no_finding(database: str) -> None:
    before = look(database)
    seen = look(database.replace("user=", "user=nobody_"), before)
    assert seen.altered is None
    assert seen.definition == before.definition
    assert "nobody_" in str(seen.unknown)
