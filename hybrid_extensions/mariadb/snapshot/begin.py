"""Begin of snapshots: MariaDB reports their log positions, and MySQL locks commits meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Misfit, QueryError
from hybrid_extensions.mariadb.log.gtid import ONE_DOMAIN, only_gtid
from hybrid_extensions.mariadb.server import Address, ask, connect_raw
from hybrid_extensions.mariadb.snapshot.capture_checks import (
    is_mariadb,
    log_status,
    require_none_prepared,
)
from hybrid_extensions.mariadb.snapshot.read_lock import read_lock
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

# Attempts to begin all snapshots between two commits.
_ATTEMPTS = 20
Begun = tuple[BinlogSnapshot, "Connection[Cursor]"]
"""A snapshot, and the connection whose transaction sees it."""


def begin(
    table: CapturedTable,
    address: Address,
    variables: Mapping[str, str],
    opened: ExitStack,
    count: int,
) -> list[Begun]:
    """Begin a number of snapshots (transactions), all at one position of the log if possible.

    MariaDB reports each snapshot's own position, so nothing is locked, and others may commit in
    between. MySQL reports none: commits are locked while all begin, for some milliseconds.

    Args:
        table: A table of the database, for messages.
        address: The database.
        variables: The server's variables.
        opened: The connections are entered here, and end with it.
        count: Number of snapshots.

    Returns:
        The snapshots, each with its connection, the one with the earliest position first.

    Raises:
        InputError: The server has GTIDs of several domains, or prepared transactions; or MySQL's
            lock was not granted.
        UnavailableError: MySQL does not answer the connection that locks commits.
        QueryError: MariaDB reports no position.
        pymysql.MySQLError: The server refuses, or a connection ended.
    """
    made = [opened.enter_context(connect_raw(address)) for _ in range(count)]
    if is_mariadb(variables):
        found = _begin_mariadb(table, made, variables)
    else:
        found = _begin_mysql(table, made, address, variables)
    return sorted(zip(found, made, strict=True), key=lambda each: _position(each[0]))


def at_first_position(begun: Sequence[Begun]) -> list[Begun]:
    """Return the snapshots at the earliest position, which is that of the first one.

    Args:
        begun: Those of :func:`begin`, at least one.
    """
    first = _position(begun[0][0])
    return [each for each in begun if _position(each[0]) == first]


def file_number(name: str) -> int:
    """Return the number of a file of the binary log, such as 3 of ``binlog.000003``."""
    return int(name.rpartition(".")[2])


def _position(snapshot: BinlogSnapshot) -> tuple[int, int]:
    return snapshot.file, snapshot.offset


def _begin_mariadb(
    table: CapturedTable, made: Sequence[Connection[Cursor]], variables: Mapping[str, str]
) -> list[BinlogSnapshot]:
    """Begin a snapshot on each connection, again while others commit in between."""
    for _ in range(_ATTEMPTS):
        for connection in made:
            ask(connection, "ROLLBACK")
        for connection in made:
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        places = [_place(connection) for connection in made]
        if len({*places}) == 1:
            break
    require_none_prepared(made[0], table)
    taken_ms = _now_ms(made[0])
    return [
        _snapshot(table, connection, variables, place, taken_ms)
        for connection, place in zip(made, places, strict=True)
    ]


def _snapshot(
    table: CapturedTable,
    connection: Connection[Cursor],
    variables: Mapping[str, str],
    place: tuple[str, int],
    taken_ms: int,
) -> BinlogSnapshot:
    [(state,)] = ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", *place)
    try:
        last = only_gtid(_text(state), variables)
    except Misfit as error:
        hint = f"{ONE_DOMAIN}; then take the snapshot: `hybrid snapshot P`."
        message = f"{error}."
        raise InputError(message, hint, source=table.source, table=table.name) from None
    file, offset = place
    return BinlogSnapshot(
        file=file_number(file),
        offset=offset,
        domain=last.domain,
        sequence=last.sequence,
        taken_ms=taken_ms,
    )


def _begin_mysql(
    table: CapturedTable,
    made: Sequence[Connection[Cursor]],
    address: Address,
    variables: Mapping[str, str],
) -> list[BinlogSnapshot]:
    """Begin a snapshot on each connection while no transaction can commit."""
    with read_lock(table, address) as lock:
        for connection in made:
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        [(file, offset, *_)] = ask(lock, log_status(variables["version"]))
        [(server,)] = ask(lock, "SELECT @@server_uuid")
        # While none of them can be committed.
        require_none_prepared(lock, table)
    snapshot = BinlogSnapshot(
        file=file_number(file),
        offset=int(offset),
        domain=None,
        sequence=0,
        taken_ms=_now_ms(made[0]),
        server=str(server),
    )
    return [snapshot] * len(made)


def _place(connection: Connection[Cursor]) -> tuple[str, int]:
    """Return file and position of the log up to which a MariaDB connection's snapshot reaches."""
    found = dict(ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    told = {_text(name).lower(): _text(value) for name, value in found.items()}
    file, offset = told.get("binlog_snapshot_file"), told.get("binlog_snapshot_position")
    if not file or not offset:
        message = "MariaDB reports no position of a snapshot (`binlog_snapshot_file`)"
        raise QueryError(message, is_connection_lost=False)
    return file, int(offset)


def _now_ms(connection: Connection[Cursor]) -> int:
    """Return the database's time, in milliseconds."""
    [(found,)] = ask(connection, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)")
    return int(found)


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
