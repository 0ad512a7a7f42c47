"""A database of a test's own on the PostgreSQL server that tests share, also with a slot."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from hybrid_extensions.servers.databases.postgres import LocalPostgres


@contextmanager
def own_database(postgres: LocalPostgres) -> Iterator[str]:
    """Make a database, whose tables no other test sees. Yields the DSN, without the password."""
    name = f"own_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.dsn, password=postgres.password, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres.dsn.replace("dbname=postgres", f"dbname={name}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def captured_database(
    postgres: LocalPostgres, statements: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Make a database with these statements, and a slot that begins after them.

    The publication ``p`` is of all its tables. Yields the DSN, and the name of the slot.
    """
    name = f"captured_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    dsn = postgres.dsn.replace("dbname=postgres", f"dbname={name}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    yield dsn, name
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
