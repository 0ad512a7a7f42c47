"""Read lock that stops commits while snapshots of MySQL begin, held only briefly.

FLUSH TABLES WITH READ LOCK waits until statements that read or write a table have ended, and all
who write wait behind it. So it gives up after a second, lets them write, and tries again.
https://dev.mysql.com/doc/refman/9.7/en/flush.html
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.server import Address, ask, connect
from hybrid_extensions.mariadb.snapshot.rights import ask_with_right
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.constants import ER
    from pymysql.cursors import Cursor

TRIES = 15
"""Attempts to get the lock before the snapshot is given up."""
_WAIT_S = 1
_PAUSE_S = 1.0
_LOCK = "FLUSH TABLES WITH READ LOCK"
_STATEMENT_CHARACTERS = 100
# The last one may be cut off.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*(?:'|$)|\"(?:[^\"\\]|\\.)*(?:\"|$)")
_RUNNING = (
    "SELECT id, user, host, time, info FROM information_schema.processlist WHERE info IS NOT NULL "
    "AND command NOT IN ('Sleep', 'Daemon') AND id <> CONNECTION_ID() ORDER BY time DESC LIMIT 1"
)


@contextmanager
def read_lock(table: CapturedTable, address: Address) -> Iterator[Connection[Cursor]]:
    """Hold a global read lock in ``with``: tables are read-only, and nothing commits.

    It is tried 15 times. Others wait a second at most for each attempt, and as long as it is held.

    Args:
        table: A table of the database, for messages.
        address: The database.

    Yields:
        The connection that holds the lock.

    Raises:
        InputError: The lock was not granted, as of a long statement (transient); the login is
            refused, or the user lacks the privilege RELOAD.
        UnavailableError: The database does not answer.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    with connect(address, table.source) as connection:
        ask(connection, f"SET SESSION lock_wait_timeout = {_WAIT_S}")
        for remaining in reversed(range(TRIES)):
            try:
                ask_with_right(connection, _LOCK, table, "RELOAD")
                break
            except MySQLError as error:
                if error.args[0] != ER.LOCK_WAIT_TIMEOUT:
                    raise
            # The attempt that gave up still keeps others from writing.
            ask(connection, "UNLOCK TABLES")
            if not remaining:
                raise _in_the_way(connection, table)
            time.sleep(_PAUSE_S)
        yield connection
        ask(connection, "UNLOCK TABLES")


def without_values(statement: str) -> str:
    """Return a statement in which each literal, maybe a value or a password, is ``'…'``."""
    return _LITERAL.sub("'…'", statement)


def _in_the_way(connection: Connection[Cursor], table: CapturedTable) -> InputError:
    """Return the error that names the statement that has run longest, if the user may see it."""
    found = ask(connection, _RUNNING)
    message = (
        f"`{_LOCK}`, in which the snapshot of `{table.name}` begins, was not granted in {TRIES} "
        f"attempts of {_WAIT_S} s: it waits until statements of others have ended."
    )
    hint = "Take the snapshot at a time without long statements: `hybrid snapshot P`."
    if found:
        [(number, user, host, seconds, statement)] = found
        text = without_values(" ".join(str(statement).split()))
        if len(text) > _STATEMENT_CHARACTERS:
            text = f"{text[:_STATEMENT_CHARACTERS]}…"
        message += f" User {user} at {host} has run this one for {seconds} s: `{text}`."
        hint = (
            f"Wait until it has ended, or end it by `KILL {number}`; then take the snapshot: "
            "`hybrid snapshot P`."
        )
    else:
        hint += " `GRANT PROCESS ON *.*` lets the user of `snapshot.dsn` see these statements."
    return InputError(message, hint, transient=True, source=table.source, table=table.name)
