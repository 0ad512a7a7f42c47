"""The slot of a log: made before its engine, and refused once changes are lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hybrid_extensions.change_log import postgres_slot
from hybrid_extensions.change_log.declare import LogDeclaration
from hybrid_extensions.change_log.position import start_at
from hybrid_extensions.servers.connect import debezium_config
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.errors import InputError, StateError, UnavailableError
from tests.services.captured_database import own_database

pytestmark = pytest.mark.slow


@pytest.fixture
def dsn(postgres: LocalPostgres) -> Iterator[str]:
    os.environ["PGPASSWORD"] = postgres.password
    with own_database(postgres) as made:
        execute(made, "CREATE TABLE orders (id int PRIMARY KEY)")
        yield made
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        execute(made, f"{drop} WHERE database = current_database()")


def execute(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else []


def declared(dsn: str, postgres: LocalPostgres, **more: str) -> LogDeclaration:
    name = dsn.rpartition("dbname=")[2]
    config = debezium_config(postgres, name, ["public.orders"], database_dbname=name, **more)
    return LogDeclaration(path="log", connector=config)


def start(end: int) -> dict[str, Any]:
    return start_at({"lsn": end, "lsn_commit": end})


def test_an_empty_log_gets_publication_and_slot(dsn: str, postgres: LocalPostgres) -> None:
    log = declared(dsn, postgres)
    end = postgres_slot.begin(log, None)
    assert execute(dsn, "SELECT tablename FROM pg_publication_tables") == [("orders",)]
    # Killed before anything is kept, it begins where the slot does.
    execute(dsn, "INSERT INTO orders VALUES (1)")
    assert postgres_slot.begin(log, None) == end
    assert postgres_slot.begin(log, start(end)) == end


def test_a_slot_that_is_gone_or_was_made_anew_is_refused(dsn: str, postgres: LocalPostgres) -> None:
    log = declared(dsn, postgres)
    end = postgres_slot.begin(log, None)
    execute(dsn, f"SELECT pg_drop_replication_slot('{log.connector['slot.name']}')")
    with pytest.raises(StateError, match=r"does not exist any more: changes .* are lost"):
        postgres_slot.begin(log, start(end))
    execute(dsn, "INSERT INTO orders VALUES (2)")
    postgres_slot.begin(log, None)
    with pytest.raises(StateError, match="created again, or somebody else reads it"):
        postgres_slot.begin(log, start(end))


def test_a_database_that_refuses_or_is_away_is_told_apart(
    dsn: str, postgres: LocalPostgres
) -> None:
    with pytest.raises(UnavailableError, match="has no connection to its database") as caught:
        postgres_slot.begin(declared(dsn, postgres, database_port="1"), None)
    assert postgres.password not in str(caught.value)
    with pytest.raises(InputError, match="The database refuses"):
        postgres_slot.begin(declared(dsn, postgres, slot_name="Not A Name"), None)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"snapshot.mode": "initial"}, "pipelines take snapshots themselves"),
        ({"offset.storage": "x"}, "the log keeps the offsets"),
        ({"driver.socketTimeout": "60"}, "gives up a silent database by itself"),
        ({"connector.class": "io.debezium.connector.oracle.OracleConnector"}, "is none of"),
        ({"table.include.list": ""}, "lacks `table.include.list`"),
    ],
)
def test_settings_that_the_log_decides_are_refused(setting: dict[str, str], told: str) -> None:
    connector = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
        "table.include.list": "public.orders",
    }
    assert LogDeclaration(path="log", connector=connector).topics == {"shop.public.orders"}
    with pytest.raises(ValueError, match=told):
        LogDeclaration(path="log", connector={**connector, **setting})
