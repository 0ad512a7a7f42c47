"""Reachability of a PostgreSQL server, and its name in messages."""

from __future__ import annotations

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

_TIMEOUT_S = 5
# The server is up: it accepts or refuses logins, or the parameters make no sense to libpq.
_ANSWERS = {pq.Ping.OK, pq.Ping.NO_ATTEMPT}


def answers(dsn: str) -> bool:
    """Return whether a PostgreSQL server accepts connections, whatever the login (``PQping``).

    Asked after a connection failed, to tell a refused login from a server that is down. Waits up to
    5 s. True, too, if the connection string makes no sense to libpq.

    Args:
        dsn: Connection string of libpq.
    """
    parameters = f"{dsn} connect_timeout={_TIMEOUT_S}" if "://" not in dsn else dsn
    return pq.PGconn.ping(parameters.encode()) in _ANSWERS


def server_of(dsn: str) -> str:
    """Return ``host:port`` of a connection string, for messages; without user and password.

    A phrase that names ``snapshot.dsn`` if the string can't be parsed.

    Args:
        dsn: Connection string of libpq.
    """
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "of `snapshot.dsn`"
    return f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
