"""How much of a database's log its connector has not read, asked of a real server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from hybrid_extensions.cdc import database_log
from hybrid_extensions.cdc.database_log import DatabaseLog
from hybrid_extensions.cdc.databases.replication_slot import ask_slot
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.server_programs import POSTGRESQL, obtain
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import RunError, UnavailableError
from tests.extensions import skip_without
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    with LocalPostgres() as running:
        with psycopg.connect(running.dsn, password=running.password, autocommit=True) as connection:
            connection.execute("CREATE TABLE orders (id serial PRIMARY KEY, note text)")
            connection.execute("CREATE PUBLICATION shop FOR TABLE orders")
            connection.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        yield running


@pytest.fixture
def options(server: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> SnapshotOptions:
    skip_without("postgres")
    monkeypatch.setenv("PGPASSWORD", server.password)
    return SnapshotOptions(dsn=server.dsn, slot="shop")


@pytest.fixture
def connector(options: SnapshotOptions) -> Iterator[subprocess.Popen[bytes]]:
    """A reader of the slot that confirms what it received each second."""
    program = obtain(POSTGRESQL).paths["pg_recvlogical"]
    command = [str(program), "-d", options.dsn, "--slot", "shop", "--start", "-f", "/dev/null"]
    more = ["-s", "1", "-o", "proto_version=1", "-o", "publication_names=shop"]
    with subprocess.Popen([*command, *more], stderr=subprocess.DEVNULL) as reader:
        wait_for(lambda: asked(options).state == "active", "the reader", 30)
        yield reader
        # SIGTERM would make it wait for the server's answer.
        reader.kill()
    wait_for(lambda: asked(options).state == "idle", "its end", 30)


def asked(options: SnapshotOptions) -> Slot:
    slot = ask_slot(options)
    assert isinstance(slot, Slot)
    return slot


def change(options: SnapshotOptions, rows: int = 100) -> None:
    with psycopg.connect(options.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO orders (note) SELECT repeat('x', 100) FROM generate_series(1, %s)", [rows]
        )


def test_a_connector_that_works_receives_all(
    options: SnapshotOptions, connector: subprocess.Popen[bytes]
) -> None:
    change(options)
    log = DatabaseLog(options)
    wait_for(lambda: log.unread() == 0, "the connector", 30)
    assert connector.poll() is None


def test_a_connector_that_hangs_has_not_received_later_changes(
    options: SnapshotOptions, connector: subprocess.Popen[bytes]
) -> None:
    connector.send_signal(signal.SIGSTOP)
    change(options, 20_000)
    log = DatabaseLog(options)
    assert log.unread() > 1_000_000
    assert not log.is_confirmed
    connector.send_signal(signal.SIGCONT)
    wait_for(lambda: log.unread() == 0, "the connector", 30)


def test_without_a_connector_a_wait_ends_and_says_what_waits_where(
    options: SnapshotOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(options)
    log = DatabaseLog(options)
    # It may be restarting.
    assert log.unread() > 0
    assert asked(options).unread_bytes
    monkeypatch.setattr(database_log, "PATIENCE_S", 0)
    with pytest.raises(RunError, match=r"B in the database, not read by the connector") as caught:
        log.unread()
    assert "Start the connector" in caught.value.hint
    gone = DatabaseLog(options.model_copy(update={"slot": "other"}))
    with pytest.raises(RunError, match="Replication slot `other` does not exist"):
        gone.unread()
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(UnavailableError, match="password authentication failed") as refused:
        DatabaseLog(options).unread()
    assert "hunter2" not in str(refused.value)


def test_a_role_that_may_not_see_what_was_sent_is_told_what_to_grant(
    options: SnapshotOptions,
    connector: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with psycopg.connect(options.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    reader = SnapshotOptions(dsn=options.dsn.replace("user=hybrid", "user=reader"), slot="shop")
    monkeypatch.setattr(database_log, "CONFIRMED_S", 0)
    password = os.environ["PGPASSWORD"]
    with (
        monkeypatch.context() as patch,
        psycopg.connect(options.dsn, password=password, autocommit=True) as connection,
    ):
        patch.setenv("PGPASSWORD", "reader")
        log = DatabaseLog(reader)
        # Of no table that is published: the connector confirms nothing.
        connection.execute("CREATE TABLE others AS SELECT repeat('x', 1000) AS x")
        with pytest.raises(RunError, match=r"the role of `snapshot\.dsn` may not see") as caught:
            wait_for(lambda: log.unread() < 0, "the error", 30)
        assert "GRANT pg_read_all_stats TO" in caught.value.hint
        connection.execute("GRANT pg_read_all_stats TO reader")
        wait_for(lambda: DatabaseLog(reader).unread() == 0, "what was sent", 30)
    assert connector.poll() is None


def test_a_connector_of_mariadb_that_confirms_nothing_more_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot = Slot("active", 58_000, unread_bytes=58_000, log_end=70, confirmed=60)
    monkeypatch.setattr(database_log, "ask_slot", lambda _: slot)
    url = "http://connect:8083/connectors/shop"
    log = DatabaseLog(SnapshotOptions(dsn="logged://reader@db/shop", connector=url))
    assert log.unread() == 58_000
    monkeypatch.setattr(database_log, "KEPT_S", 0)
    slot = slot._replace(confirmed=69)
    with pytest.raises(
        RunError, match="has not confirmed the binary log up to its end, and nothing more"
    ) as caught:
        log.unread()
    assert "58.0 kB in the database, not confirmed by the connector" in str(caught.value)
    # What came after the first look does not count.
    slot = slot._replace(confirmed=70, log_end=99)
    assert log.unread() == 0
    assert log.is_confirmed
    # Without heartbeats it could not confirm the end of the log.
    slot = slot._replace(log_end=0, unread_bytes=None)
    assert DatabaseLog(SnapshotOptions(dsn="logged://reader@db/shop", connector=url)).unread() == 0
