"""Kinds of databases whose tables are captured, as declarations and messages have to know them."""

from __future__ import annotations

from dataclasses import dataclass

from sources.decoding.record_columns import EnvelopePart


@dataclass(frozen=True)
class DatabaseKind:
    """Facts about a kind of database.

    Attributes:
        name: Its name, which is also that of the extra that reads it.
        schemes: Beginnings of its connection strings; none for the kind of all others.
        parts: Parts of a change's envelope that the hand-over is decided by.
        has_slots: Whether a connector keeps its place in a replication slot; else Kafka Connect
            keeps it, as a position of the binary log.
        schema: What the first part of a table's name is called, also in a connector's settings.
        password: Environment variable with the password.
    """

    name: str
    schemes: tuple[str, ...]
    parts: tuple[EnvelopePart, ...]
    has_slots: bool
    schema: str
    password: str


BINLOG = DatabaseKind(
    name="mariadb",
    schemes=("mariadb://", "mysql://"),
    parts=("position", "committed_at"),
    has_slots=False,
    schema="database",
    password="MYSQL_PWD",
)
"""MariaDB and MySQL."""
POSTGRES = DatabaseKind(
    name="postgres",
    schemes=(),
    parts=("position", "lsn", "transaction", "committed_at"),
    has_slots=True,
    schema="schema",
    password="PGPASSWORD",
)
"""PostgreSQL, whose connection strings are those of libpq."""


def kind_of(dsn: str) -> DatabaseKind:
    """Return the kind of the database that a connection string leads to, by its scheme."""
    return BINLOG if dsn.startswith(BINLOG.schemes) else POSTGRES
