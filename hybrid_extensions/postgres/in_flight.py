"""Wait for transactions in flight, after which a snapshot has all that the log had before.

The order of commits in PostgreSQL's log is not that in which they become visible, so a snapshot is
no position in the log. A transaction that has written something holds a lock on its own id until
its rows are visible: once all that held one at a position have ended, each later snapshot has every
change that the log has before that position.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hybrid_extensions.cdc.databases.log_mark import lsn_text
from hybrid_extensions.libpq.connections import server_of
from hybrid_extensions.postgres.tables import connect_to, raise_if_away
from sources.common.counting import first_few
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, StateError

if TYPE_CHECKING:
    import psycopg

_GRANT = (
    "Let the role that `snapshot.dsn` names execute `pg_current_wal_insert_lsn`, and read "
    "`pg_locks`, `pg_stat_activity` and `pg_prepared_xacts`, as every role may by default. Then "
    "try again."
)
_HINTS = {
    "55000": "It is a standby server: let `snapshot.dsn` lead to the primary server.",
    "42501": _GRANT,
    "57014": "Raise `statement_timeout` of the role that `snapshot.dsn` names, then try again.",
}
"""By the SQLSTATE of PostgreSQL's refusal."""
_POLL_S = 0.2
_LOG_END = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
# A prepared transaction has no process. Those of other databases write no row of this one.
_WRITERS = (
    "SELECT l.transactionid::text, coalesce("
    "'prepared transaction `' || p.gid || '`', 'process ' || l.pid || coalesce(' of `' || "
    "a.usename || '`', '') || coalesce(' (' || nullif(a.application_name, '') || ')', '') || "
    "coalesce(', since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'HH24:MI:SS'), '')) "
    "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid "
    "WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted "
    "AND coalesce(a.datname, p.database, current_database()) = current_database() ORDER BY 2"
)


def settle_log(options: SnapshotOptions, within_s: float) -> int:
    """Return the end of the log, after waiting for all transactions that were in flight then.

    Args:
        options: The declared snapshot, which says how the database is reached.
        within_s: How long to wait for them, in s.

    Returns:
        The log's end at the call, as a number (LSN): each snapshot that is taken after it has all
        changes before it.

    Raises:
        StateError: Some have not ended in time; names their processes. Transient.
        InputError: The database refuses: it is a standby server, the role lacks a right, or a
            statement takes too long.
        UnavailableError: The database does not answer, or ends the connection.
    """
    import psycopg  # noqa: PLC0415 - the extra is required by `connect_to`

    with connect_to(options.dsn, doing="repair") as connection:
        try:
            end = connection.execute(_LOG_END).fetchone()
            assert end is not None
            _wait(connection, int(end[0]), within_s)
            return int(end[0])
        except psycopg.Error as error:
            raise_if_away(error, options.dsn, "while transactions in flight were waited for")
            server, text = server_of(options.dsn), " ".join(str(error).split()).rstrip(".")
            message = (
                f"The database {server} refuses to tell the end of its log, or which transactions "
                f"are in flight: {text}."
            )
            hint = _HINTS.get(
                error.sqlstate or "", "Correct the cause that it names, then try again."
            )
            raise InputError(message, hint, field="snapshot.dsn", server=server) from None


def _wait(connection: psycopg.Connection[Any], end: int, within_s: float) -> None:
    """Wait until the transactions that are in flight now have ended."""
    deadline = time.monotonic() + within_s
    # After the end was read: whoever wrote before it either holds its lock still, or is visible.
    before = _writers(connection)
    while left := before.keys() & _writers(connection).keys():
        if time.monotonic() > deadline:
            who = [before[each] for each in sorted(left, key=before.__getitem__)]
            message = (
                f"Transactions that were in flight at {lsn_text(end)} have not "
                f"ended within {within_s:g} s: {first_few(who, '; ')}."
            )
            hint = (
                "Wait until they have ended, or end them (`SELECT pg_terminate_backend(<process>)`,"
                " `ROLLBACK PREPARED '<name>'`), then try again; or allow more time with "
                "`--within`."
            )
            raise StateError(message, hint, transient=True)
        time.sleep(_POLL_S)


def _writers(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the ids of the transactions that have written something, with who they are."""
    return {str(number): str(who) for number, who in connection.execute(_WRITERS).fetchall()}
