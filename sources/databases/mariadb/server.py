"""How a MariaDB or MySQL server is reached: address, password, connections and their errors."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from sources.common.environment import variable
from sources.common.optional import needs_extra
from sources.databases.captured_table import QueryError
from sources.errors import InputError, UnavailableError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    import pymysql
    from pymysql.constants import CR, ER
    from pymysql.cursors import Cursor, SSCursor

PASSWORD_VARIABLE = "MYSQL_PWD"
"""Environment variable with the password, as MariaDB's own client has it."""
_TIMEOUT_S = 10
_DAY_S = 86_400
# The server sends rows while a file is written, and holds a snapshot while others are read.
_SETTINGS = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', transaction_isolation = 'REPEATABLE-READ', "
    f"net_write_timeout = {_DAY_S}, wait_timeout = {_DAY_S}"
)
_OLD_NAME = _SETTINGS.replace("transaction_isolation", "tx_isolation")
_LOST = {
    CR.CR_CONNECTION_ERROR,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    ER.SERVER_SHUTDOWN,
    ER.CON_COUNT_ERROR,
    1927,  # ER_CONNECTION_KILLED
}


class Address(NamedTuple):
    """Address of a database in a MariaDB or MySQL server, without a password.

    Attributes:
        host: Name or address of the server.
        port: Its TCP port.
        user: Name of the user.
        database: Name of the database; empty for none.
        tls: Files for TLS, by ``ssl_ca``, ``ssl_cert`` and ``ssl_key``.
    """

    host: str
    port: int
    user: str
    database: str
    tls: Mapping[str, str]

    @property
    def server(self) -> str:
        """``host:port``, for messages."""
        return f"{self.host}:{self.port}"


def parse_address(dsn: str) -> Address:
    """Return the address that a connection string ``mariadb://user@host:port/database`` names.

    Args:
        dsn: The string, with the scheme ``mariadb`` or ``mysql``.

    Raises:
        InputError: It has no host or no user, or an option or a port that is not known.
    """
    try:
        url = urlsplit(dsn)
        port = url.port or 3306
    except ValueError:
        url, port = urlsplit(""), 0
    tls = dict(parse_qsl(url.query))
    other = set(tls) - {"ssl_ca", "ssl_cert", "ssl_key"}
    if not url.hostname or not url.username or other:
        what = f"the option `{min(other)}`, which is not known" if other else "no host or no user"
        message = f"`snapshot.dsn` of MariaDB or MySQL has {what}, or is not an address."
        hint = (
            "Write `mariadb://user@host:3306/database`, with `?ssl_ca=<file>` for TLS; the options "
            "are ssl_ca, ssl_cert and ssl_key."
        )
        raise InputError(message, hint, field="snapshot.dsn")
    database = unquote(url.path.strip("/"))
    return Address(url.hostname, port, unquote(url.username), database, tls)


def server_id_of(connector: str) -> int:
    """Return a number for a connector that is distinct from other readers of the same binary log.

    A server and its replicas, whose numbers are small by custom, have others.

    Args:
        connector: Name of the connector.
    """
    return 10_000 + zlib.crc32(connector.encode()) % 1_000_000


def server_of(dsn: str) -> str:
    """Return ``host:port`` of a connection string, for messages; without user and password.

    Returns:
        A phrase instead of the address if the connection string can't be parsed.
    """
    try:
        return parse_address(dsn).server
    except InputError:
        return "of `snapshot.dsn`"


def connect(address: Address, source: str) -> pymysql.Connection[Cursor]:
    """Return a connection that commits each statement, with times in UTC.

    Args:
        address: The database.
        source: Name of the file source, for messages.

    Raises:
        InputError: The server refuses the login or the database.
        UnavailableError: The server does not answer.
    """
    try:
        return _connect(address)
    except (pymysql.MySQLError, OSError) as error:
        message = f"Connecting to the database {address.server} failed: {text_of(error)}."
        if is_lost(error):
            hint = (
                "Start the server, or correct host and port in `snapshot.dsn`; then take the "
                "snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise UnavailableError(message, hint, source=source, server=address.server) from None
        hint = (
            "Correct database and user in `snapshot.dsn`, or set the environment variable "
            f"{PASSWORD_VARIABLE} to the password."
        )
        raise InputError(message, hint, source=source, server=address.server) from None


def ask(connection: pymysql.Connection[Cursor], query: str, *values: object) -> list[Any]:
    """Return all rows of a query, as tuples.

    Args:
        connection: Where it is asked.
        query: SQL, with ``%s`` for each value.
        values: The values.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise the driver's errors in the body as a :class:`QueryError`."""
    try:
        yield
    except (pymysql.MySQLError, OSError) as error:
        raise QueryError(text_of(error), is_connection_lost=is_lost(error)) from None


def raw_cursor(connection: pymysql.Connection[Cursor]) -> SSCursor:
    """Return a cursor that does not keep its rows, on a connection of :func:`connect_raw`."""
    return connection.cursor(SSCursor)


def connect_raw(address: Address) -> pymysql.Connection[Cursor]:
    """Return a connection whose queries return the bytes of values as the server sends them.

    Raises:
        pymysql.MySQLError: The server refuses, or does not answer.
    """
    return _connect(address, conv=dict(pymysql.converters.encoders), use_unicode=False)


def is_lost(error: Exception) -> bool:
    """Return whether a statement failed because the connection or the server is gone."""
    if isinstance(error, pymysql.MySQLError):
        code = error.args[0] if error.args else None
        # The driver has no number for what it finds out by itself, as a connection that is closed.
        return isinstance(error, pymysql.InterfaceError) or code in _LOST
    return isinstance(error, OSError)


def text_of(error: Exception) -> str:
    """Return what a driver's error says, in one line, without its number."""
    said = error.args[-1] if error.args else error
    return " ".join(str(said).split()).rstrip(".")


def _connect(address: Address, **more: Any) -> pymysql.Connection[Cursor]:
    connection = pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=variable(PASSWORD_VARIABLE) or "",
        database=address.database or None,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_TIMEOUT_S,
        program_name="hybrid snapshot",
        **_tls(address),
        **more,
    )
    with connection.cursor() as cursor:
        try:
            cursor.execute(_SETTINGS)
        except pymysql.MySQLError as error:
            if error.args[0] != ER.UNKNOWN_SYSTEM_VARIABLE:
                raise
            # MariaDB before 11.1.
            cursor.execute(_OLD_NAME)
    return connection


def _tls(address: Address) -> dict[str, Any]:
    if not address.tls:
        return {}
    return {**address.tls, "ssl_verify_cert": True, "ssl_verify_identity": True}
