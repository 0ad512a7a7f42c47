"""A PostgreSQL that goes silent after the login is given up by each look, and named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.cdc.databases.captured_table import CapturedTable, QueryError
from hybrid_extensions.libpq import connections as libpq
from hybrid_extensions.postgres import slot, tables
from hybrid_extensions.postgres.compared_rows import bound_after
from hybrid_extensions.postgres.in_flight import settle_log
from hybrid_extensions.postgres.log_end import mark_log
from hybrid_extensions.postgres.table import open_table
from hybrid_extensions.postgres.tables import find_tables
from hybrid_extensions.postgres.watch import table_look
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.table_definition import PostgresDefinition
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.decoding.changes.declared_table import DeclaredTable
from sources.errors import HybridError, InputError, UnavailableError
from tests.services.captured_database import captured_database
from tests.services.network import Network

pytestmark = pytest.mark.slow
COLUMNS = {"id": "int", "v": "int"}
MERGE = Sink.model_validate({"path": "out", "mode": "merge", "key": ["id"]})
LIMIT_S = 1.0


@pytest.fixture
def network(postgres: LocalPostgres) -> Iterator[Network]:
    with Network(postgres.port) as made:
        yield made


@pytest.fixture
def options(
    network: Network, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SnapshotOptions]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    monkeypatch.setattr(slot, "_ANSWER_S", LIMIT_S)
    monkeypatch.setattr(table_look, "_ANSWER_S", LIMIT_S)
    monkeypatch.setattr(libpq, "SILENCE_S", LIMIT_S)
    monkeypatch.setattr(libpq, "_TIMEOUT_S", 2)
    with captured_database(postgres, ["CREATE TABLE t (id int PRIMARY KEY, v int)"]) as made:
        dsn, name = made
        yield SnapshotOptions(dsn=f"{dsn} port={network.port}", slot=name)


def table_of(options: SnapshotOptions) -> CapturedTable:
    return CapturedTable("snapshot", "public.t", options, COLUMNS, [], MERGE)


def test_a_look_at_the_slot_says_so(network: Network, options: SnapshotOptions) -> None:
    assert not isinstance(slot.ask_slot(options), str)
    network.silence_at(b"pg_replication_slots")
    assert slot.ask_slot(options) == f"127.0.0.1:{network.port} has sent nothing for 1 second"
    network.heal()
    assert not isinstance(slot.ask_slot(options), str)


def test_a_look_at_the_table_says_so_and_keeps_what_was_known(
    network: Network, options: SnapshotOptions
) -> None:
    names = Names(COLUMNS, DeclaredTable(table="public.t"))
    topic: Any = SimpleNamespace(topic="shop.public.t")

    def look(before: TableWatch) -> TableWatch:
        return table_look.look_at_table(table_of(options), topic, names, before)

    known = look(TableWatch(looked_ms=1))
    assert (known.unknown, known.altered) == (None, None)
    network.silence_at(b"pg_attribute")
    silent = look(known)
    assert silent.unknown == f"127.0.0.1:{network.port} has sent nothing for 1 second"
    assert (silent.definition, silent.altered) == (known.definition, None)
    network.heal()
    again = look(silent)
    assert (again.unknown, again.altered) == (None, None)
    # The server's other transactions move the horizon, which is no part of the table.
    before, after = known.definition, again.definition
    assert isinstance(before, PostgresDefinition)
    assert isinstance(after, PostgresDefinition)
    assert after == before.model_copy(update={"horizon": after.horizon})


@pytest.mark.parametrize("at", [b"pg_publication", b"pg_export_snapshot", b"COPY"])
def test_a_snapshot_ends_with_a_lost_connection(
    network: Network, options: SnapshotOptions, at: bytes
) -> None:
    with open_table(table_of(options)) as opened:
        [reader] = opened.readers(1)
        assert list(reader.rows(opened.divide(), 0)) == []
    network.silence_at(at)

    def read() -> None:
        with open_table(table_of(options)) as opened:
            [reader] = opened.readers(1)
            division = opened.divide()
            if at == b"COPY":
                # What reads the rows leaves it to the kernel, which sees nothing wrong here.
                threading.Timer(LIMIT_S, network.cut).start()
            list(reader.rows(division, 0))

    with pytest.raises(QueryError) as raised:
        read()
    assert raised.value.is_connection_lost


def test_a_comparison_and_a_wait_for_transactions_end(
    network: Network, options: SnapshotOptions
) -> None:
    said = "has sent nothing for 1 second, nor does it answer another connection"
    network.silence_at(b"OFFSET")
    with pytest.raises(UnavailableError, match=said):
        bound_after(options.dsn, "public.t", "id", "true", 1)
    network.heal()
    network.silence_at(b"pg_locks")
    with pytest.raises(UnavailableError, match=said):
        settle_log(options, 60)


def test_a_server_that_ends_connections_is_no_refusal(
    network: Network, options: SnapshotOptions
) -> None:
    for at in (b"pg_locks", b"pg_logical_emit_message"):
        network.silence_at(at)
        threading.Timer(LIMIT_S / 5, network.cut).start()
        with pytest.raises(UnavailableError, match="went away while"):
            settle_log(options, 60) if at == b"pg_locks" else mark_log(options)
        network.heal()
    network.cut()
    with pytest.raises(UnavailableError, match="can't be read"):
        bound_after(options.dsn, "public.t", "id", "true", 1)
    with pytest.raises(UnavailableError, match=r"host and port in `snapshot\.dsn`"):
        settle_log(options, 60)


def test_a_login_that_is_refused_names_what_has_the_address(postgres: LocalPostgres) -> None:
    dsn = f"{postgres.dsn} user=nobody_at_all"
    with pytest.raises(InputError, match=r"database and user in `snapshot\.dsn`"):
        settle_log(SnapshotOptions(dsn=dsn, slot="any"), 60)
    with pytest.raises(InputError, match=r"database and user in `database\.dsn`"):
        find_tables(dsn, lambda _: True)


@pytest.mark.parametrize(
    ("query", "kind", "text"),
    [
        ("SELECT 1/0", InputError, "does not list its tables: division by zero"),
        (
            "SELECT pg_terminate_backend(pg_backend_pid())",
            UnavailableError,
            "went away while its tables were listed",
        ),
    ],
)
def test_tables_that_can_t_be_listed_are_an_error_with_a_way_out(
    postgres: LocalPostgres,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    kind: type[HybridError],
    text: str,
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    monkeypatch.setattr(tables, "_NAMES", query)
    with pytest.raises(kind, match=text):
        find_tables(postgres.dsn, lambda _: True)
