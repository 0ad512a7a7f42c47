"""A client that reads a server's binary log, as a connector does, without a JVM."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymysql.constants import COMMAND

from hybrid_extensions.mariadb.snapshot.capture_checks import log_status as statement_of
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from tests.services.processes import wait_for

_SERVER_ID = 4711


def log_status(connection: Any) -> str:
    """The statement for the end of the binary log, which version 8.2 of MySQL renamed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        return statement_of(*cursor.fetchone())


@contextmanager
def binlog_reader(server: MySqlServer) -> Iterator[None]:
    """Ask for the binary log from its end on; the server shows a thread ``Binlog Dump``."""
    # Its own methods are the only way to send such a command.
    connection: Any = server.connect()
    try:
        with connection.cursor() as cursor:
            if server.scheme == "mysql":
                cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            else:
                cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
                cursor.execute("SET @mariadb_slave_capability = 4")
            cursor.execute(log_status(connection))
            [(file, position, *_)] = cursor.fetchall()
        asked = struct.pack("<IHI", position, 0, _SERVER_ID) + file.encode()
        connection._execute_command(COMMAND.COM_BINLOG_DUMP, asked)

        def is_read() -> bool:
            query = "SELECT 1 FROM information_schema.processlist WHERE command = 'Binlog Dump'"
            with server.connect() as other, other.cursor() as found:
                return bool(found.execute(query))

        wait_for(is_read, "the reader of the binary log", 30)
        yield
    finally:
        connection._force_close()
