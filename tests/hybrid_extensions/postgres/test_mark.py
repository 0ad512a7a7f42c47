"""A mark in the log of a real PostgreSQL divides transactions as Debezium numbers their changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from hybrid_extensions.postgres.log_end import mark_log
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError
from tests.services.captured_database import captured_database

pytestmark = pytest.mark.slow


@pytest.fixture
def dsn(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with captured_database(postgres, ["CREATE TABLE t (id text)"]) as (dsn, _):
        yield dsn


def test_what_was_committed_before_is_on_one_side_and_nothing_else(dsn: str) -> None:
    options = SnapshotOptions(dsn=dsn, slot="any")
    with psycopg.connect(dsn) as in_flight, psycopg.connect(dsn, autocommit=True) as other:
        in_flight.execute("INSERT INTO t VALUES ('in flight')")
        other.execute("INSERT INTO t VALUES ('before')")
        first = mark_log(options)
        other.execute("INSERT INTO t VALUES ('between')")
        second = mark_log(options)
        # Though nobody commits, a connector gets to confirm all of it.
        assert numbered(dsn)[1][-1] >= second.through
        in_flight.commit()
    changes, _ = numbered(dsn)
    for mark, held in ((first, {"before"}), (second, {"before", "between"})):
        assert {name for name, position in changes.items() if position < mark.position} == held
    assert first.at < second.at


def numbered(dsn: str) -> tuple[dict[str, str], list[int]]:
    """Positions of the rows, and what ends a transaction for Debezium's `source.sequence`."""
    with psycopg.connect(dsn) as connection:
        name = connection.info.dbname
        found = connection.execute(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint, data FROM pg_logical_slot_peek_binary_changes("
            "%s, NULL, NULL, 'proto_version', '1', 'publication_names', 'p', 'messages', 'true')",
            [name],
        ).fetchall()
    rows: dict[str, str] = {}
    ends = [0]
    for lsn, data in found:
        kind = data[:1]
        if kind == b"I":
            # Relation, "N", one column, "t", its length, its text.
            rows[data[13:].decode()] = f"{ends[-1]:016x}{lsn:016x}"
        elif kind == b"C" or (kind == b"M" and data[1] == 0):
            ends.append(lsn)
    return rows, ends


def test_a_database_that_refuses_is_named(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        named = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = %s"
        # Their parameters differ by version.
        for (function,) in connection.execute(named, ["pg_logical_emit_message"]).fetchall():
            connection.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        role = f"reader_{uuid.uuid4().hex[:8]}"
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    with pytest.raises(
        InputError, match=r"refuses the message that marks a position.*PostgreSQL 14"
    ):
        mark_log(SnapshotOptions(dsn=f"{dsn} options='-c role={role}'", slot="any"))
