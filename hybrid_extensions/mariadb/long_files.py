"""Long files of the binary log: behind 4 GiB, written by one transaction, positions repeat.

An event has 32 bits for its position, which begins again behind 4 GiB: measured with MySQL 9.7. A
file becomes as long only by a transaction, which is never divided.
"""

from __future__ import annotations

from collections.abc import Mapping

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.mariadb.snapshot.capture_checks import is_mariadb
from hybrid_extensions.mariadb.snapshot.rights import ask_with_right
from sources.common.optional import needs_extra

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

LONGEST = 1 << 32
"""Bytes of a file up to which all of its positions are known."""


def find_long_files(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str], since: int
) -> list[str]:
    """Return the names of log files longer than 4 GiB, beyond which positions are ambiguous.

    In the order of the log; maybe none.

    Args:
        connection: Open connection to the server.
        table: The table, for messages.
        variables: Variables of the server.
        since: Number of the first file that counts.

    Raises:
        MissingRight: The user may not list the files.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    right = "BINLOG MONITOR" if is_mariadb(variables) else "REPLICATION CLIENT"
    rows = ask_with_right(connection, "SHOW BINARY LOGS", table, right)
    files = [(str(name), int(size)) for name, size, *_ in rows]
    return [name for name, size in files if size > LONGEST and file_number(name) >= since]
