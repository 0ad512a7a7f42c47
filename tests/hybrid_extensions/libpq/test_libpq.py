"""A connection to PostgreSQL ends once its server is silent, and not before."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from hybrid_extensions.libpq import connections as libpq
from hybrid_extensions.libpq.connections import connect, limited
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from tests.services.network import Network

pytestmark = pytest.mark.slow


@pytest.fixture
def network(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with Network(postgres.port) as made:
        yield made


def through(network: Network, postgres: LocalPostgres) -> str:
    return f"{postgres.dsn} port={network.port}"


@pytest.mark.parametrize(
    ("answer_s", "said"),
    [
        (1.0, "has sent nothing for 1 second$"),
        (None, "has sent nothing for 1 second, nor does it answer another connection"),
    ],
)
def test_a_silent_server_is_named_with_the_limit(
    network: Network,
    postgres: LocalPostgres,
    monkeypatch: pytest.MonkeyPatch,
    answer_s: float | None,
    said: str,
) -> None:
    monkeypatch.setattr(libpq, "SILENCE_S", 1.0)
    monkeypatch.setattr(libpq, "_TIMEOUT_S", 2)
    network.silence_at(b"'silent'")
    with connect(through(network, postgres), answer_s=answer_s) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match=rf"^127.0.0.1:{network.port} {said}"):
            connection.execute("SELECT 'silent'")
        assert connection.closed


def test_a_server_that_accepts_a_connection_and_says_nothing_is_named(
    network: Network, postgres: LocalPostgres
) -> None:
    network.silence()
    said = rf"^127.0.0.1:{network.port} does not answer: connection timeout expired"
    with pytest.raises(psycopg.OperationalError, match=said):
        connect(through(network, postgres), connect_timeout=2)


def test_a_long_statement_of_a_server_that_answers_others_is_waited_for(
    network: Network, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libpq, "SILENCE_S", 0.3)
    with connect(postgres.dsn) as connection:
        assert connection.execute("SELECT 'long', pg_sleep(1)").fetchone() == ("long", "")
    with (
        connect(postgres.dsn, answer_s=0.3) as connection,
        pytest.raises(psycopg.OperationalError, match="has sent nothing"),
    ):
        connection.execute("SELECT pg_sleep(1)")


def test_a_connection_is_given_up_after_a_minute_without_an_answer_to_its_packets(
    network: Network, postgres: LocalPostgres
) -> None:
    with (
        connect(postgres.dsn) as connection,
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as opened,
    ):
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        found = [opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, each)) for each in names]
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert found == [30, 10, 3, 60_000]


def test_what_a_connection_string_says_of_its_limits_counts() -> None:
    given = conninfo_to_dict(limited("host=db keepalives_idle=5 connect_timeout=3", port=5433))
    assert (given["keepalives_idle"], given["connect_timeout"]) == ("5", "3")
    assert (given["tcp_user_timeout"], given["port"]) == ("60000", "5433")
    url = conninfo_to_dict(limited("postgresql://me@db/shop?connect_timeout=3"))
    assert (url["connect_timeout"], url["keepalives_count"]) == ("3", "3")


def test_a_server_that_accepts_a_connection_and_says_nothing_is_not_there(
    network: Network, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libpq, "_TIMEOUT_S", 2)
    network.silence()
    assert not libpq.answers(through(network, postgres))
    url = f"postgresql://me@127.0.0.1:{network.port}/postgres"
    assert not libpq.answers(url)


@pytest.mark.parametrize(
    ("statement", "away"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", True),
        ("SELECT 1 / 0", False),
        ("DO $$ BEGIN RAISE SQLSTATE '55000'; END $$", False),
        ("SET statement_timeout = 1; SELECT pg_sleep(9)", False),
    ],
)
def test_only_an_ended_connection_means_that_the_server_went_away(
    postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch, statement: str, away: bool
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with connect(postgres.dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(statement)
        assert libpq.is_away(raised.value, postgres.dsn) is away
