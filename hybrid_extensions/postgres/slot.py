"""Replication slot of a PostgreSQL server: its state and its lag.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
"""

from __future__ import annotations

from typing import Any

from hybrid_extensions.cdc.databases.kafka_connect import find_connector_state
from hybrid_extensions.cdc.databases.slot import Slot, State
from hybrid_extensions.libpq.connections import connect
from sources.common.optional import needs_extra
from sources.config.source.snapshot import SnapshotOptions

with needs_extra("postgres", "A replication slot of PostgreSQL"):
    import psycopg

_TIMEOUT_S = 5
_ANSWER_S = 10.0


def ask_slot(options: SnapshotOptions) -> Slot | str:
    """Return the state of a declared replication slot, by asking the server. Raises nothing.

    To connect may take 5 s, and each answer 10 s.

    Args:
        options: Declared snapshot with connection string and slot name.

    Returns:
        The slot's state, ``missing`` if the server has none of this name; or the reason why it is
        not known, as text, also of a standby.
    """
    try:
        with connect(
            options.dsn,
            answer_s=_ANSWER_S,
            autocommit=True,
            connect_timeout=_TIMEOUT_S,
            application_name="hybrid slot",
            options=f"-c statement_timeout={_TIMEOUT_S * 1000}",
        ) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            if row is not None and row[0]:
                return f"{connection.info.host} is a standby server, which does not report slots"
            return _with_failure(find_slot(connection, options.log_reader), options)
    except psycopg.Error as error:
        return " ".join(str(error).split())


def _with_failure(slot: Slot, options: SnapshotOptions) -> Slot:
    """Return a slot that nobody reads with what Kafka Connect says of its declared connector."""
    if slot.state != "idle" or options.connector is None:
        return slot
    found = find_connector_state(options.connector)
    if isinstance(found, str):
        return slot._replace(silent=found)
    return slot._replace(failure=found.failure)


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot:
    """Return the state of a replication slot, ``missing`` if the server has none of the name.

    Args:
        connection: Open connection to the server, which is not a standby.
        name: Name of the slot.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    # Asked first: what was sent by then is compared with it.
    end = connection.execute("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    row = connection.execute(
        "SELECT s.active, coalesce(s.wal_status, ''), "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint, "
        "(s.confirmed_flush_lsn - '0/0'::pg_lsn)::bigint, "
        "(r.sent_lsn - '0/0'::pg_lsn)::bigint, (r.write_lsn - '0/0'::pg_lsn)::bigint "
        "FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid "
        "WHERE s.slot_name = %s",
        [name],
    ).fetchone()
    if end is None or row is None or row[3] is None:
        return Slot("missing")
    is_active, status, retained, confirmed, sent, written = row
    if status == "lost":
        return Slot("lost")
    if not is_active:
        sent = written = confirmed
    unread = max(end[0] - sent, 0) if sent is not None else 0 if confirmed >= end[0] else None
    # A connector that has not reported yet has received what it confirmed before.
    received = max(confirmed, written or 0) if sent is not None else None
    state: State = "active" if is_active else "idle"
    return Slot(state, retained, unread, end[0], received, confirmed)
