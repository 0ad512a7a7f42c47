"""Connections to MariaDB or MySQL: address, password, TLS, time limits, and transient errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from hybrid_extensions.cdc.databases.captured_table import QueryError
from hybrid_extensions.mariadb.kind import BINLOG
from sources.common.environment import variable
from sources.common.optional import needs_extra
from sources.errors import InputError, UnavailableError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    import pymysql
    from pymysql.constants import CR, ER
    from pymysql.cursors import Cursor, SSCursor

PASSWORD_VARIABLE = BINLOG.password
"""Environment variable with the password, as MariaDB's own client has it."""
_TIMEOUT_S = 10
LOOK_S = 15.0
"""How long a server may send nothing while it is looked at, in s: a look is made again soon."""
SILENCE_S = 120.0
"""How long a server may send nothing otherwise, in s."""
_DAY_S = 86_400
# The server sends rows while a file is written, and holds a snapshot while others are read.
_SETTINGS = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', transaction_isolation = 'REPEATABLE-READ', "
    f"net_write_timeout = {_DAY_S}, wait_timeout = {_DAY_S}"
)
_OLD_NAME = _SETTINGS.replace("transaction_isolation", "tx_isolation")
LOST = {
    CR.CR_CONNECTION_ERROR,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    ER.SERVER_SHUTDOWN,
    ER.CON_COUNT_ERROR,
    1927,  # ER_CONNECTION_KILLED
}
"""Numbers of the errors of a connection that was lost, or never made."""
_TLS_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
VERIFY_CA = "VERIFY_CA"
"""Value of ``ssl_mode`` by which the name in the server's certificate does not count."""
_TLS_MODES = (VERIFY_CA, "VERIFY_IDENTITY")
_CONTEXTS: dict[tuple[Any, ...], ssl.SSLContext] = {}


class Address(NamedTuple):
    """Address of a database in a MariaDB or MySQL server, without a password.

    Attributes:
        host: Name or address of the server.
        port: TCP port of the server.
        user: Name of the user.
        database: Name of the database; empty for none.
        tls: Paths of files for TLS, by ``ssl_ca``, ``ssl_cert`` and ``ssl_key``; empty for no TLS
            check.
        checks_name: Whether the name in the server's certificate has to be that of the host, if
            there are such files.
    """

    host: str
    port: int
    user: str
    database: str
    tls: Mapping[str, str]
    checks_name: bool = True

    @property
    def server(self) -> str:
        """``host:port``, for messages."""
        return f"{self.host}:{self.port}"


def parse_address(dsn: str) -> Address:
    """Parse a connection string ``mariadb://user@host:port/database``.

    Args:
        dsn: The string, with the scheme ``mariadb`` or ``mysql``.

    Raises:
        InputError: It is no address with host and user, or has an option that is not known.
    """
    try:
        url = urlsplit(dsn)
        port = url.port or 3306
    except ValueError:
        url, port = urlsplit(""), 0
    tls = dict(parse_qsl(url.query))
    mode = tls.pop("ssl_mode", _TLS_MODES[-1]).upper()
    other = [*sorted(set(tls) - set(_TLS_FILES)), *({mode} - set(_TLS_MODES))]
    if not url.hostname or not url.username or other:
        what = "is no address with a host and a user"
        if other:
            named = f"ssl_mode={mode}" if other[0] == mode else other[0]
            what = f"has the option `{named}`, which is not known"
        message = f"The address (`dsn`) of the MariaDB or MySQL database {what}."
        hint = (
            "Write `mariadb://user@host:3306/database`, with `?ssl_ca=<file>` for TLS; the options "
            f"are {', '.join(_TLS_FILES)} and ssl_mode, which is {' or '.join(_TLS_MODES)}."
        )
        raise InputError(message, hint, field="snapshot.dsn")
    database = unquote(url.path.strip("/"))
    user = unquote(url.username)
    return Address(url.hostname, port, user, database, tls, checks_name=mode != VERIFY_CA)


def server_of(dsn: str) -> str:
    """Return ``host:port`` of a connection string, for messages; without user and password.

    Returns:
        A phrase instead of the address if the connection string can't be parsed.
    """
    try:
        return parse_address(dsn).server
    except InputError:
        return "of `snapshot.dsn`"


def connect(
    address: Address, source: str, silence_s: float = SILENCE_S
) -> pymysql.Connection[Cursor]:
    """Return an open connection to a server, with autocommit, and with times in UTC.

    The password is in the environment variable ``MYSQL_PWD``. The server is waited for up to 10 s,
    and for each answer as long as ``silence_s`` says; a statement that takes longer is lost.

    Args:
        address: The database.
        source: Name of the file source, for messages.
        silence_s: How long the server may send nothing while it is waited for, in s.

    Raises:
        InputError: The server refuses the login or the database, its certificate is not one that
            ``dsn`` accepts, a file of ``dsn`` or of the password can't be read, or a package is
            missing by which a password is encrypted.
        UnavailableError: The server does not answer.
    """
    for option, file in address.tls.items():
        if not Path(file).is_file():
            message = f"`{option}={file}` in the database's address (`dsn`) is not a file."
            hint = f"Correct the path, which starts from {Path.cwd()}, or put the file there."
            if Path(file).is_absolute():
                hint = "Correct the path, or put the file there."
            raise InputError(message, hint, source=source, file=file)
    try:
        return _connect(address, silence_s)
    except RuntimeError as error:
        # By the package that pymysql[rsa] installs.
        message = f"Connecting to the database {address.server} without TLS failed: {error}."
        hint = (
            "Install it where this ran: `pip install 'hybrid-backfill[mariadb]'`; or let "
            "the server offer TLS, over which the password is sent as it is."
        )
        raise InputError(
            message, hint, source=source, server=address.server, extra="mariadb"
        ) from None
    except (pymysql.MySQLError, OSError) as error:
        message = f"Connecting to the database {address.server} failed: {text_of(error)}."
        if is_lost(error):
            hint = "Start the server, or correct host and port in the address (`dsn`)."
            raise UnavailableError(message, hint, source=source, server=address.server) from None
        hint = (
            "Correct database and user in the address (`dsn`), or set the environment variable "
            f"{PASSWORD_VARIABLE} to the password."
        )
        if _is_of_tls(error):
            hint = (
                "Name the file of the authority that signed the server's certificate in the "
                "address (`dsn`), `?ssl_ca=<file>`. If the certificate has another name than the "
                f"host, as those that MySQL makes itself, add `&ssl_mode={VERIFY_CA}`, which "
                "accepts any name in a certificate of this authority. If the server has no TLS, "
                "switch it on there."
            )
        raise InputError(message, hint, source=source, server=address.server) from None


def answers(address: Address) -> bool:
    """Return whether a server accepts connections, whatever the login; it is waited for up to 15 s.

    Args:
        address: The database.

    Raises:
        InputError: The file of the password can't be read.
    """
    try:
        _connect(address, LOOK_S).close()
    except (pymysql.MySQLError, OSError) as error:
        return not is_lost(error)
    except RuntimeError:
        # A package for the login is missing.
        return True
    return True


def needs_public_key(address: Address) -> bool:
    """Return whether a client must request the server's public key to encrypt its password.

    True for MySQL where the login is not over TLS. Connects to the server.

    Raises:
        InputError, UnavailableError: As :func:`connect`.
    """
    with connect(address, "snapshot") as connection:
        [(_, cipher)] = ask(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        [(version,)] = ask(connection, "SELECT version()")
    return not cipher and "mariadb" not in str(version).lower()


def ask(connection: pymysql.Connection[Cursor], query: str, *values: object) -> list[Any]:
    """Return all rows of a query, as tuples; empty for a statement that has none.

    Args:
        connection: Open connection to the server.
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
    """Raise an error of the driver in the body of ``with`` as a :class:`QueryError`.

    So is an OSError; all others pass.
    """
    try:
        yield
    except (pymysql.MySQLError, OSError) as error:
        raise QueryError(text_of(error), is_connection_lost=is_lost(error)) from None


@contextmanager
def raw_cursor(connection: pymysql.Connection[Cursor]) -> Iterator[SSCursor]:
    """Open a streaming cursor on a connection of :func:`connect_raw` for the body of ``with``.

    It fetches rows as they are asked for, and is closed with the block. Rows that were not fetched
    by then are read to the end, which may take long, unless the connection is closed.
    """
    cursor = connection.cursor(SSCursor)
    try:
        yield cursor
    finally:
        result = getattr(cursor, "_result", None)
        if result is not None and not connection.open:
            # At its end the driver reads the rest, also of a connection that was lost on the way.
            result.unbuffered_active = False
        cursor.close()


def connect_raw(address: Address) -> pymysql.Connection[Cursor]:
    """Return an open connection whose queries return values as the bytes that the server sends.

    Raises:
        pymysql.MySQLError: The server refuses, or does not answer.
        InputError: The file of the password can't be read.
    """
    encoders = dict(pymysql.converters.encoders)
    return _connect(address, SILENCE_S, conv=encoders, use_unicode=False)


def is_lost(error: Exception) -> bool:
    """Return whether an error of a statement means that the connection was lost, or never made.

    A login or a certificate that is refused is no loss.
    """
    if _is_of_tls(error):
        return False
    if isinstance(error, pymysql.MySQLError):
        code = error.args[0] if error.args else None
        # The driver has no number for what it finds out by itself, as a connection that is closed.
        return isinstance(error, pymysql.InterfaceError) or code in LOST
    return isinstance(error, OSError)


def text_of(error: Exception) -> str:
    """Return a driver error's text in one line, without its number and full stop.

    Where the server was silent for too long, the text names the limits in s.
    """
    said = error.args[-1] if error.args else error
    text = " ".join(str(said).split()).rstrip(".")
    if error.args[:1] == (CR.CR_SERVER_LOST,) and "timed out" in text:
        return f"{text}: it sent nothing for {SILENCE_S:g} s, or {LOOK_S:g} s in a look"
    return text


class _Connection(pymysql.connections.Connection):
    """Connection that reads certificates once a process, and again if one of the files changes.

    The driver reads them for each connection; without TLS files all authorities that the system
    trusts, although it checks none then.
    """

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        files = [Path(value) for value in sslp.values() if isinstance(value, str)]
        key = (*sorted(sslp.items()), *(each.stat().st_mtime_ns for each in files))
        if key not in _CONTEXTS:
            _CONTEXTS[key] = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
        return _CONTEXTS[key]


def _connect(address: Address, silence_s: float, **more: Any) -> pymysql.Connection[Cursor]:
    connection = _Connection(
        host=address.host,
        port=address.port,
        user=address.user,
        password=variable(PASSWORD_VARIABLE) or "",
        database=address.database or None,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_TIMEOUT_S,
        # Without them the driver waits for ever, also for the first words of a server.
        read_timeout=silence_s,
        write_timeout=silence_s,
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


def _is_of_tls(error: Exception) -> bool:
    """Return whether a server has no TLS, or a certificate that is not accepted."""
    cause = getattr(error, "original_exception", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return True
    return isinstance(error, pymysql.MySQLError) and error.args[0] == CR.CR_SSL_CONNECTION_ERROR


def _tls(address: Address) -> dict[str, Any]:
    if not address.tls:
        return {}
    checks = {"ssl_verify_cert": True, "ssl_verify_identity": address.checks_name}
    return {**address.tls, **checks}
