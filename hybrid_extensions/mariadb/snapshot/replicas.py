"""Check of replicas: whether they write the changes that they replicate to their own binary log."""

from __future__ import annotations

from collections.abc import Mapping

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.snapshot.rights import ask_with_right
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

LOGGING = ("log_replica_updates", "log_slave_updates")
"""Names of the server variable for that: MySQL's since 8.0.26, and the older one of both."""


def check_replica(
    connection: Connection[Cursor],
    table: CapturedTable,
    variables: Mapping[str, str],
    *,
    is_mariadb: bool,
) -> None:
    """Refuse a replica that does not write what it replicates to its own binary log.

    Of MariaDB also a server that was a replica before. One without the setting passes, unasked.

    Args:
        connection: Open connection to the database.
        table: The table, for messages.
        variables: The server's variables.
        is_mariadb: Whether it is MariaDB, which remembers in a variable what it has replicated.

    Raises:
        InputError: The server is such a replica; names the setting.
        MissingRight: The user may not ask whether it is a replica.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    name = next((each for each in LOGGING if each in variables), "")
    if variables.get(name) != "OFF":
        return
    if is_mariadb:
        is_replica = bool(variables.get("gtid_slave_pos"))
    else:
        word = "REPLICA" if name == LOGGING[0] else "SLAVE"
        status = f"SHOW {word} STATUS"
        is_replica = bool(ask_with_right(connection, status, table, "REPLICATION CLIENT"))
    if is_replica:
        # MariaDB remembers what it has replicated also after it has become a primary.
        what = "is, or was, a replica, and has" if is_mariadb else "is a replica with"
        message = (
            f"The database server {what} `{name}=OFF`: its binary log lacks the changes "
            "that it replicates."
        )
        hint = (
            f"Set `{name}=ON` in the server's configuration and restart it, or name its primary in "
            "`snapshot.dsn`; then take the snapshot: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, table=table.name, value=name)
