"""A MariaDB server and its replica, which has the same transactions under the same GTIDs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymysql.cursors import DictCursor

from hybrid_extensions.mariadb.log.gtid import Gtid, parse_gtids
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from hybrid_extensions.servers.databases.mysql_server import USER
from hybrid_extensions.servers.process import HOST
from tests.services.processes import wait_for

_SETTINGS = {"gtid-strict-mode": "ON", "innodb-flush-log-at-trx-commit": "1"}


@contextmanager
def mariadb_pair() -> Iterator[tuple[LocalMariaDb, LocalMariaDb]]:
    """A primary and a replica, whose log has the same rows in fewer events, further ahead."""
    events = {"binlog-row-event-max-size": "1024"}
    primary = LocalMariaDb(settings={**_SETTINGS, **events, "server-id": "1"})
    replica = LocalMariaDb(settings={**_SETTINGS, "server-id": "2"})
    # A replica has the users of its primary.
    replica.password = primary.password
    with primary, replica:
        primary.execute(
            "CREATE DATABASE past",
            "USE past",
            "CREATE TABLE t (id int PRIMARY KEY, note text)",
            "INSERT INTO t SELECT seq, repeat('x', 1000) FROM seq_1_to_3000",
        )
        replica.execute(
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{last_gtid(primary)}'",
            f"CHANGE MASTER TO master_host = '{HOST}', master_port = {primary.port}, "
            f"master_user = '{USER}', master_password = '{primary.password}', "
            "master_use_gtid = slave_pos",
            "START SLAVE",
        )
        yield primary, replica


def last_gtid(server: LocalMariaDb) -> Gtid:
    """The last transaction of a server's binary log."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        [(text,)] = cursor.fetchall()
    return parse_gtids(text)[0]


def promote(replica: LocalMariaDb, server_id: int | None = None) -> None:
    """Make a primary of a replica, once it has applied all that it received.

    Args:
        replica: The server.
        server_id: Its id from then on, such as that of its primary.
    """

    def has_applied() -> bool:
        with replica.connect() as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            rows: Any = cursor.fetchall()
        return bool(rows[0]["Gtid_IO_Pos"] == str(last_gtid(replica)))

    wait_for(has_applied, "the replica to apply what it received", 60)
    replica.execute("STOP SLAVE", "RESET SLAVE ALL")
    if server_id is not None:
        replica.execute(f"SET GLOBAL server_id = {server_id}")
