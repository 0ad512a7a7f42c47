"""What a real server tells of a slot, and what is remembered of one that was gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hybrid_extensions.cdc.databases.replication_slot import ask_slot, keep_gone, slot_gone
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.storage.folder import Folder
from tests.extensions import skip_without
from tests.services.connect_worker import FAILED, RUNNING, worker


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    with LocalPostgres(settings={"max_slot_wal_keep_size": "1MB"}) as running:
        yield running


@pytest.fixture
def options(server: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> SnapshotOptions:
    skip_without("postgres")
    monkeypatch.setenv("PGPASSWORD", server.password)
    return SnapshotOptions(dsn=server.dsn, slot="shop")


def execute(server: LocalPostgres, *statements: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def asked(options: SnapshotOptions) -> Slot:
    slot = ask_slot(options)
    assert isinstance(slot, Slot)
    return slot


def test_a_slot_that_nobody_reads_is_lost_in_the_end_and_that_is_remembered(
    server: LocalPostgres, options: SnapshotOptions, tmp_path: Path
) -> None:
    state = Folder(tmp_path)
    make = "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')"
    drop = "SELECT pg_drop_replication_slot('shop')"
    assert asked(options).state == "missing"
    execute(server, make)
    assert asked(options).state == "idle"
    assert slot_gone(state, options, asked(options)) is None
    # More of the log than it may keep for a slot.
    churn = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000)), pg_switch_wal()"
    execute(server, *[churn] * 3)
    assert asked(options).retained_bytes > 2 << 20
    execute(server, "CHECKPOINT")
    gone = slot_gone(state, options, asked(options))
    assert gone is not None
    assert re.match(r"replication slot `shop` had lost its log at \d+-.*missing", str(gone))
    keep_gone(state, gone)
    # Another slot of that name does not have what the first one lost.
    execute(server, drop, make)
    assert asked(options).state == "idle"
    assert slot_gone(state, options, asked(options)) == gone
    execute(server, drop)


def test_a_slot_that_nobody_reads_says_why_its_connector_failed(
    server: LocalPostgres, options: SnapshotOptions
) -> None:
    execute(server, "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    answers = {"/connectors/shop/status": FAILED}
    try:
        with worker(answers) as url:
            declared = options.model_copy(update={"connector": url})
            assert asked(declared).failure == "no reason is reported"
            assert (asked(options).failure, asked(declared).silent) == ("", "")
            answers["/connectors/shop/status"] = RUNNING
            assert asked(declared).failure == ""
        # A worker that does not answer says nothing of the slot.
        assert asked(declared).state == "idle"
        assert re.match("Kafka Connect does not answer: .*refused", asked(declared).silent)
    finally:
        execute(server, "SELECT pg_drop_replication_slot('shop')")


def test_a_server_that_does_not_answer_says_nothing_of_its_slots(
    options: SnapshotOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    told = ask_slot(options)
    assert isinstance(told, str)
    assert "password authentication failed" in told
    assert "hunter2" not in told
    assert slot_gone(Folder(tmp_path), options, told) is None
