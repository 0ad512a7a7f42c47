"""A snapshot of a real PostgreSQL that is taken after a wait has all that the log had before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from hybrid_extensions.postgres.in_flight import settle_log
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, StateError
from tests.services.captured_database import own_database
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def dsn(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with own_database(postgres) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int)")
        yield dsn


def lsn(connection: psycopg.Connection) -> int:
    query = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
    [(found,)] = connection.execute(query).fetchall()
    return int(found)


def test_it_waits_for_who_has_written_and_for_nobody_who_begins_later(dsn: str) -> None:
    options, found = SnapshotOptions(dsn=dsn, slot="any"), []
    waiting = threading.Thread(target=lambda: found.append(settle_log(options, 60)))
    with (
        psycopg.connect(dsn) as before,
        psycopg.connect(dsn) as after,
        psycopg.connect(dsn) as reading,
        psycopg.connect(dsn, autocommit=True) as other,
    ):
        before.execute("INSERT INTO t VALUES (1)")
        reading.execute("SELECT * FROM t")
        begun = lsn(other)
        waiting.start()
        looked = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'idle' AND query LIKE '%pg_locks%'"
        )
        wait_for(lambda: other.execute(looked).fetchone() is not None, "its first look")
        after.execute("INSERT INTO t VALUES (2)")
        assert waiting.is_alive()
        before.commit()
        waiting.join(60)
        assert not waiting.is_alive()
        assert begun <= found[0] <= lsn(other)


def test_who_does_not_end_in_time_is_named(dsn: str) -> None:
    options = SnapshotOptions(dsn=dsn, slot="any")
    with psycopg.connect(dsn, application_name="a long job") as hanging:
        hanging.execute("INSERT INTO t VALUES (1)")
        told = rf"within 0 s: process {hanging.info.backend_pid} of `\w+` \(a long job\)"
        with pytest.raises(StateError, match=told) as caught:
            settle_log(options, 0)
    assert caught.value.transient


def test_what_others_write_in_other_databases_does_not_count(
    dsn: str, postgres: LocalPostgres
) -> None:
    with own_database(postgres) as other_dsn, psycopg.connect(other_dsn) as other:
        other.execute("CREATE TABLE t (id int)")
        assert settle_log(SnapshotOptions(dsn=dsn, slot="any"), 0) > 0
        other.rollback()
        other.close()


@pytest.mark.parametrize(
    ("state", "way_out"),
    [
        ("55000", "It is a standby server: let `snapshot.dsn` lead to the primary server."),
        ("42501", "Let the role that `snapshot.dsn` names execute `pg_current_wal_insert_lsn`"),
        ("57014", "Raise `statement_timeout` of the role"),
        ("22012", "Correct the cause that it names"),
    ],
)
def test_each_refusal_has_its_own_way_out_and_names_the_server(
    dsn: str, monkeypatch: pytest.MonkeyPatch, state: str, way_out: str
) -> None:
    refuse = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"
    monkeypatch.setattr("hybrid_extensions.postgres.in_flight._LOG_END", refuse)
    with pytest.raises(InputError, match=r"The database .+:\d+.* refuses to tell") as refused:
        settle_log(SnapshotOptions(dsn=dsn, slot="any"), 0)
    assert refused.value.hint.startswith(way_out)
    assert "server" in refused.value.fields
