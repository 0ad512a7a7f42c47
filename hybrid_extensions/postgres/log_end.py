"""End of PostgreSQL's log as a position that divides all transactions, even without changes.

Debezium orders changes by the end of the transaction before theirs (``source.sequence``). So "lower
than P" holds for the transactions that ended before P *and* for the next one, whenever that comes.
A logical decoding message right after P takes the part of the next one: Debezium treats it as the
end of a transaction
(https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-message-events).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybrid_extensions.cdc.databases.log_mark import Mark, lsn_text
from hybrid_extensions.libpq.connections import server_of
from hybrid_extensions.postgres.tables import connect_to, raise_if_away
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError

if TYPE_CHECKING:
    import psycopg

PREFIX = "hybrid"
"""Prefix of the messages, by which a connector can exclude them."""


def mark_log(options: SnapshotOptions) -> Mark:
    """Write two messages of a few bytes to the log, and return the position before them.

    For cuts: the messages let the connector confirm that position, although no table changes.

    Args:
        options: The declared snapshot, which says how the database is reached.

    Raises:
        InputError: The database refuses the message.
        UnavailableError: The database does not answer, or ends the connection.
    """
    import psycopg  # noqa: PLC0415 - the extra is required by `connect_to`

    with connect_to(options.dsn, doing="cut") as connection:
        try:
            return _mark(connection)
        except psycopg.Error as error:
            raise_if_away(error, options.dsn, "while a position in its log was marked")
            server, text = server_of(options.dsn), " ".join(str(error).split()).rstrip(".")
            message = (
                f"The database {server} refuses the message that marks a position in its log: "
                f"{text}."
            )
            hint = (
                "Let `snapshot.dsn` lead to the primary server, PostgreSQL 14 or newer, by a role "
                "that may execute `pg_logical_emit_message`, as every role may by default."
            )
            raise InputError(message, hint, field="snapshot.dsn", server=server) from None


def _mark(connection: psycopg.Connection[Any]) -> Mark:
    before = connection.execute(
        "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, clock_timestamp()"
    ).fetchone()
    with connection.transaction():
        # With an id of its own the transaction is written to the disk when it ends, and so are the
        # messages, which otherwise wait for the next commit of anybody.
        connection.execute("SELECT pg_current_xact_id()")
        emit = f"SELECT (pg_logical_emit_message(false, '{PREFIX}', 'cut') - '0/0'::pg_lsn)::bigint"
        first = connection.execute(emit).fetchone()
        # What a connector confirms last is the start of this one, the end of the first.
        connection.execute(emit)
    assert before is not None
    assert first is not None
    lsn, at = before
    return Mark(f"{lsn:016x}", lsn_text(lsn), first[0], at)
