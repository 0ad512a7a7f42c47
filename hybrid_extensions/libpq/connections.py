"""Connections to PostgreSQL: one with a silent server ends; whether a server is away or refuses.

And its address for messages, without password.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import pq
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sources.common.counting import counted

_TIMEOUT_S = 5
# The server ends a connection, or does not accept one now
# (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_AWAY = ("08", "57P01", "57P02", "57P03")
# The server is up: it accepts or refuses logins, or the parameters make no sense to libpq.
_ANSWERS = {pq.Ping.OK, pq.Ping.NO_ATTEMPT}
SILENCE_S = 60.0
"""Silence, in s, after which a server that runs a long statement is asked whether it is there."""
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS. A connection whose
# packets nobody acknowledges, as of a machine that is gone, ends after a minute.
_LIMITS: Mapping[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class _Watched(psycopg.Connection[Any]):
    """Connection that ends while it waits for a server that has gone silent; see :func:`connect`.

    Attributes:
        conninfo: Its connection string.
        answer_s: As for :func:`connect`.
    """

    conninfo = ""
    answer_s: float | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **more: Any) -> RV:
        """Run an operation of the connection; psycopg resumes it each 0.1 s at least."""
        return super().wait(self._watched(gen), *args, **more)

    def _watched(self, operation: PQGen[RV]) -> PQGen[RV]:
        heard = time.monotonic()
        try:
            state = next(operation)
            while True:
                ready = yield state
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > (self.answer_s or SILENCE_S):
                    self._require_server()
                    heard = time.monotonic()
                state = operation.send(ready)
        except StopIteration as ended:
            result: RV = ended.value
            return result

    def _require_server(self) -> None:
        """End the connection, unless it may take longer and the server answers another one."""
        if self.answer_s is None and _ping(self.conninfo) is not pq.Ping.NO_RESPONSE:
            return
        self.close()
        waited = counted(round(self.answer_s or SILENCE_S), "second")
        also = "" if self.answer_s is not None else ", nor does it answer another connection"
        message = f"{server_of(self.conninfo)} has sent nothing for {waited}{also}"
        raise psycopg.OperationalError(message)


def connect(
    dsn: str,
    *,
    answer_s: float | None = None,
    autocommit: bool = False,
    **parameters: str | int | None,
) -> psycopg.Connection[Any]:
    """Return an open connection, which ends with an error if its server goes silent.

    Args:
        dsn: Connection string of libpq.
        answer_s: How long the server may send nothing while a statement runs, in s. By default a
            statement may take as long as it wants, and the server is asked once a minute on another
            connection whether it still answers.
        autocommit: As for psycopg.
        parameters: More parameters of libpq, as for :func:`limited`.

    Raises:
        psycopg.Error: The server does not answer, or refuses; so do all operations later on.
    """
    conninfo = limited(dsn, **parameters)
    try:
        made = _Watched.connect(conninfo, autocommit=autocommit)
    except psycopg.errors.ConnectionTimeout as error:
        # The driver's own words do not name the server.
        message = f"{server_of(conninfo)} does not answer: {error}"
        raise psycopg.errors.ConnectionTimeout(message) from error
    made.conninfo, made.answer_s = conninfo, answer_s
    return made


def limited(dsn: str, **parameters: str | int | None) -> str:
    """Return a connection string with limits for connecting, and for packets without an answer.

    Connecting may take 10 s, and no packet is without an answer for longer than a minute. What
    the given string says about either counts.

    Args:
        dsn: Connection string of libpq.
        parameters: More parameters of libpq, which take the place of those in the string.

    Raises:
        psycopg.ProgrammingError: The string makes no sense to libpq.
    """
    given = conninfo_to_dict(dsn, **parameters)
    missing = {name: value for name, value in _LIMITS.items() if given.get(name) is None}
    return make_conninfo(dsn, **parameters, **missing)


def answers(dsn: str) -> bool:
    """Return whether a PostgreSQL server accepts connections, whatever the login (``PQping``).

    Asked after a connection failed, to tell a refused login from a server that is down. Waits up to
    5 s. True, too, if the connection string makes no sense to libpq.

    Args:
        dsn: Connection string of libpq.
    """
    return _ping(dsn) in _ANSWERS


def is_away(error: psycopg.Error, dsn: str) -> bool:
    """Return whether an error means that the server does not answer, or ended the connection.

    Then the same may succeed later; otherwise the server refuses something. After a connection
    could not be made, the server is asked, for up to 5 s, whether it is there.

    Args:
        error: Error of a connection of :func:`connect`, or of the attempt to make one.
        dsn: Connection string of libpq.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_AWAY)
    # https://www.psycopg.org/psycopg3/docs/api/errors.html: only an attempt to connect has it.
    return error.pgconn is None or not answers(dsn)


def _ping(dsn: str) -> pq.Ping:
    try:
        parameters = make_conninfo(dsn, connect_timeout=_TIMEOUT_S)
    except psycopg.ProgrammingError:
        return pq.Ping.NO_ATTEMPT
    return pq.Ping(pq.PGconn.ping(parameters.encode()))


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
