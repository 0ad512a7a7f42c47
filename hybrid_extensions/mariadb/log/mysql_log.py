"""Lag in MySQL's binary log; whether the server has the rest, or is a replica that is behind.

Positions are those of one server: another one that took its place has other files.
"""

from __future__ import annotations

from hybrid_extensions.cdc.databases.slot import Slot, State
from hybrid_extensions.mariadb.log.connector import ReadUpTo
from hybrid_extensions.mariadb.server import ask
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.mariadb.snapshot.capture_checks import log_status
from sources.common.optional import needs_extra

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

# More bytes than a file of the log has, so that one number stands for file and position.
_FILE_BYTES = 1 << 40


def find_mysql_slot(connection: Connection[Cursor], read: ReadUpTo) -> Slot | str:
    """Return the state of MySQL's binary log after a position, or why it is unknown.

    Args:
        connection: Open connection to the server.
        read: Up to where the connector has read.

    Returns:
        The state, ``lost`` if the server has removed what the connector needs, or has begun a new
        log; ``missing`` if the connector has read nothing yet. Or, as text, why it is not known:
        the server is a replica that is behind.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if read.file is None:
        return Slot("missing")
    [(version, server)] = ask(connection, "SELECT @@version, @@server_uuid")
    files = {
        file_number(str(name)): int(size) for name, size, *_ in ask(connection, "SHOW BINARY LOGS")
    }
    [(last, end, *_)] = ask(connection, log_status(str(version)))
    if read.gtid_set:
        query = (
            "SELECT GTID_SUBSET(@@global.gtid_purged, %s), "
            "GTID_SUBTRACT(%s, @@global.gtid_executed)"
        )
        [(has_all, ahead)] = ask(connection, query, read.gtid_set, read.gtid_set)
        if ahead and server not in str(ahead):
            return lacks(str(ahead))
        is_lost = bool(ahead) or not has_all
    else:
        is_lost = read.file not in files or read.offset > files[read.file]
    if is_lost:
        return Slot("lost", server=str(server))
    log_end = mysql_place(file_number(str(last)), int(end))
    confirmed = mysql_place(read.file, read.offset)
    sizes = [size for number, size in files.items() if number >= read.file]
    behind = max(sum(sizes) - read.offset, 1) if confirmed < log_end else 0
    state: State = "active" if read.is_running else "idle"
    return Slot(state, behind, behind, log_end, confirmed=confirmed, server=str(server))


def lacks(transactions: str) -> str:
    """Return why a connector's lag is not known: its server lacks what the connector has read.

    Args:
        transactions: Their GTIDs.
    """
    return (
        f"the server's log does not have {transactions}, which the connector has read: it is a "
        "replica that is behind, or was promoted without this transaction"
    )


def mysql_place(file: int, offset: int) -> int:
    """Return a position in MySQL's binary log as one number; later positions are higher.

    Args:
        file: Number of the log's file.
        offset: Position in the file, in bytes.
    """
    return file * _FILE_BYTES + offset
