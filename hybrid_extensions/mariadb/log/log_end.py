"""Position in a binary log that divides all transactions: MariaDB's last GTID, MySQL's end.

Nothing is written. The binary log has transactions in the order of their commits, and numbers them
without gaps that others could fall into: a transaction whose number is not above the last one is in
the log, and each later one gets a higher number. A connector with heartbeats reports up to which
number the topics hold everything, though no captured table changes
(https://debezium.io/documentation/reference/stable/connectors/mariadb.html).
"""

from __future__ import annotations

from datetime import UTC, datetime

from hybrid_extensions.cdc.databases.captured_table import Misfit, QueryError
from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.mariadb.log.connector import require_heartbeats
from hybrid_extensions.mariadb.log.gtid import ONE_DOMAIN, Gtid, only_gtid
from hybrid_extensions.mariadb.log.mysql_log import mysql_place
from hybrid_extensions.mariadb.server import ask, connect, parse_address, query_errors
from hybrid_extensions.mariadb.snapshot.begin import file_number
from hybrid_extensions.mariadb.snapshot.capture_checks import (
    is_mariadb,
    log_status,
    server_variables,
)
from sources.common.database_snapshot import file_position, gtid_position
from sources.common.optional import needs_extra
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, UnavailableError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor


def mark_log(options: SnapshotOptions) -> Mark:
    """Return the position behind the last transaction of the binary log.

    It needs no privilege of MariaDB, and of MySQL ``REPLICATION CLIENT``.

    Args:
        options: The declared snapshot, with the URL of the connector.

    Raises:
        InputError: The server is a replica, or has GTIDs of several domains; it refuses the login
            or the query; or the connector has no heartbeats. Being a replica is transient, as a new
            primary is one until its first commit.
        UnavailableError: The server or Kafka Connect does not answer.
    """
    require_heartbeats(str(options.connector))
    address = parse_address(options.dsn)
    try:
        with query_errors(), connect(address, "snapshot") as connection:
            # Before the position: what was committed by then is on its first side.
            [(seconds,)] = ask(connection, "SELECT UNIX_TIMESTAMP(SYSDATE(6))")
            variables = server_variables(connection)
            at = datetime.fromtimestamp(float(seconds), UTC)
            if not is_mariadb(variables):
                return _mark_mysql(connection, variables["version"], at)
    except QueryError as error:
        message = f"The database {address.server} could not be asked for its last commit: {error}."
        if error.is_connection_lost:
            hint = "Start the server, or correct `snapshot.dsn`; then try again."
            raise UnavailableError(message, hint, server=address.server) from None
        hint = "Grant REPLICATION CLIENT to the user of `snapshot.dsn`, which MySQL needs for it."
        raise InputError(message, hint, server=address.server, field="snapshot.dsn") from None
    try:
        last = only_gtid(variables["gtid_binlog_pos"], variables)
    except Misfit as error:
        message = f"{error}."
        raise InputError(message, f"{ONE_DOMAIN}.", server=address.server) from None
    _require_primary(last, address.server, int(variables["server_id"]))
    # A connector that began in an empty log counts the first transaction before it has read it.
    through = max(last.sequence, 2)
    return Mark(
        gtid_position(last.domain, last.sequence + 1, 0, 0),
        str(last),
        through,
        at,
    )


def _mark_mysql(connection: Connection[Cursor], version: str, at: datetime) -> Mark:
    """Return the end of MySQL's binary log, which is the end of a transaction."""
    [(name, end, *_)] = ask(connection, log_status(version))
    file, offset = file_number(str(name)), int(end)
    return Mark(file_position(file, offset), f"{name}:{offset}", mysql_place(file, offset), at)


def _require_primary(last: Gtid, server: str, own: int) -> None:
    """Refuse a replica: a connector at the primary may have delivered what it does not have yet."""
    if last.server not in (None, own):
        message = (
            f"The last commit in the binary log of {server} is {last}, of server {last.server}; "
            f"this is server {own}. So it is a replica, or has become the primary and not "
            "committed yet, and may lack commits that are in the topics."
        )
        hint = (
            "Let `snapshot.dsn` lead to the primary server. If it does since a failover, wait for "
            "the first commit of that server."
        )
        raise InputError(message, hint, transient=True, server=server, field="snapshot.dsn")
