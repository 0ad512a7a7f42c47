"""Check that a MySQL snapshot is taken on the server whose log the connector reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.cdc.databases.kafka_connect import read_config
from hybrid_extensions.mariadb.server import Address, ask, connect, parse_address
from hybrid_extensions.mariadb.snapshot.capture_checks import is_mariadb
from sources.common.optional import needs_extra
from sources.errors import HybridError, InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.cursors import Cursor


def log_address(address: Address, config: Mapping[str, Any]) -> Address | None:
    """Return the address of the server whose log a connector reads; None if it is the declared one.

    Args:
        address: The database that is declared.
        config: The connector's configuration.
    """
    host = str(config.get("database.hostname") or address.host)
    port = str(config.get("database.port") or address.port)
    if not port.isdigit() or (host, int(port)) == (address.host, address.port):
        return None
    return address._replace(host=host, port=int(port), database="")


def require_same_server(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str]
) -> None:
    """Refuse a MySQL snapshot on another server than the declared connector's.

    Files and positions mean something in one server only, so changes could not be distinguished
    from those that the snapshot contains. Passes for MariaDB, whose GTIDs a replica keeps; without
    a declared connector; and if the connector's server can't be asked from here.

    Args:
        connection: Open connection to the database of the snapshot.
        table: The table; its options may name the connector.
        variables: The server's variables.

    Raises:
        InputError: It is another server; names both.
        UnavailableError: Kafka Connect does not answer.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if is_mariadb(variables) or (url := table.options.connector) is None:
        return
    address = parse_address(table.options.dsn)
    if (there := log_address(address, read_config(url))) is None:
        return
    [(own,)] = ask(connection, "SELECT @@server_uuid")
    try:
        with connect(there, table.source) as other:
            [(read,)] = ask(other, "SELECT @@server_uuid")
    except (HybridError, MySQLError, OSError):
        return
    if read == own:
        return
    message = (
        f"`snapshot.dsn` leads to {address.server}, and connector {url} reads the log of "
        f"{there.server}, which is another MySQL server: positions in their logs can't be compared."
    )
    hint = (
        f"Name {there.server} in `snapshot.dsn`, or let the connector read the log of "
        f"{address.server}; then take the snapshot: `hybrid snapshot P`."
    )
    raise InputError(message, hint, source=table.source, table=table.name, field="snapshot.dsn")
