"""PostgreSQL slot of a change log: created for an empty log only; refused if changes are lost.

Debezium would create a slot that is missing, and continue without the changes in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hybrid_extensions.cdc.databases.log_mark import lsn_text
from hybrid_extensions.change_log.declare import LogDeclaration
from sources.common.optional import needs_extra
from sources.errors import InputError, StateError, UnavailableError

if TYPE_CHECKING:
    import psycopg

_NEW_LOG = "Begin a new log in an empty folder, and new generations with new snapshots."
_SLOT = (
    "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint, coalesce(wal_status, '') "
    "FROM pg_replication_slots WHERE slot_name = %s"
)


def begin(declared: LogDeclaration, start: Mapping[str, Any] | None) -> int:
    """Check the log's replication slot, and return the position (LSN) that it has confirmed.

    That is the end of a transaction. For an empty log, publication and slot are created if they are
    missing. Called before each start of the engine.

    Args:
        declared: The log.
        start: Offset from which the engine continues; None for an empty log.

    Raises:
        StateError: Changes after the log's end are lost: the slot is missing, lost, or beyond it.
        InputError: The database refuses the login, the publication or the slot.
        UnavailableError: The database does not answer.
    """
    with _connected(declared) as connection:
        name = declared.connector.get("slot.name", "debezium")
        row = connection.execute(_SLOT, [name]).fetchone()
        if start is not None:
            return _confirmed(name, row, int(start["lsn_commit"]))
        if row is None:
            _publish(connection, declared)
            make = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
            connection.execute(make, [name])
            row = connection.execute(_SLOT, [name]).fetchone()
        assert row is not None
        return int(row[0])


def require_answer(declared: LogDeclaration) -> None:
    """Check that a log's database (PostgreSQL) answers a query; waits 5 s for the connection.

    Raises:
        InputError: The database refuses the login.
        UnavailableError: The database does not answer.
    """
    with _connected(declared) as connection:
        connection.execute("SELECT 1")


@contextmanager
def _connected(declared: LogDeclaration) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a log's database, and raise its errors as those of this project."""
    with needs_extra("postgres", "The change log of a PostgreSQL"):
        import psycopg  # noqa: PLC0415

        from hybrid_extensions.libpq.connections import connect  # noqa: PLC0415

    config = declared.connector
    try:
        with connect(
            "",
            host=config.get("database.hostname"),
            port=config.get("database.port", "5432"),
            user=config.get("database.user"),
            password=config.get("database.password"),
            dbname=config.get("database.dbname"),
            connect_timeout=5,
            autocommit=True,
            application_name="hybrid change-log",
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        why = " ".join(str(error).split()).rstrip(".")
        message = f"The change log has no connection to its database: {why}."
        hint = "Start the server, or correct `database.*` of `connector`."
        raise UnavailableError(message, hint) from None
    except psycopg.Error as error:
        why = " ".join(str(error).split()).rstrip(".")
        message = f"The database refuses the change log: {why}."
        hint = (
            "Correct that: Debezium needs `wal_level = logical` of the server, and REPLICATION, "
            "SELECT and CREATE of the user of `connector`. Then start the log again: `hybrid "
            "change-log P`. It goes on where it ends."
        )
        raise InputError(message, hint) from None


def _confirmed(name: str, row: tuple[Any, ...] | None, end: int) -> int:
    if row is None or row[1] == "lost":
        state = "does not exist any more" if row is None else "has lost its part of the log"
        message = f"Replication slot `{name}` {state}: changes after the change log's end are lost."
        raise StateError(message, _NEW_LOG)
    if row[0] > end:
        message = (
            f"Replication slot `{name}` has confirmed {lsn_text(row[0])}, and the change log ends "
            f"at {lsn_text(end)}: the slot was created again, or somebody else reads it. Changes "
            "in between are lost."
        )
        raise StateError(message, _NEW_LOG)
    return int(row[0])


def _publish(connection: psycopg.Connection[Any], declared: LogDeclaration) -> None:
    """Make the publication if there is none, as a slot knows only those made before it."""
    from psycopg import sql  # noqa: PLC0415

    name = declared.connector.get("publication.name", "dbz_publication")
    found = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [name])
    if found.fetchone() is not None:
        return
    tables = [sql.Identifier(*each.split(".", 1)) for each in declared.tables]
    if declared.connector.get("publication.autocreate.mode") != "filtered" or not tables:
        make = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(sql.Identifier(name))
    else:
        make = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
            sql.Identifier(name), sql.SQL(", ").join(tables)
        )
    connection.execute(make)
