"""A MariaDB or MySQL table that is read under snapshots whose positions in the log are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pyarrow as pa

from sources.common.database_snapshot import BinlogSnapshot
from sources.common.optional import needs_extra
from sources.common.schema import parse_schema
from sources.databases.captured_table import CapturedTable, Division, QueryError
from sources.databases.mariadb.checks import (
    ask_with_right,
    check_log,
    check_table,
    is_mariadb,
    mysql_status,
    read_columns,
    server_variables,
)
from sources.databases.mariadb.chunks import divide, where
from sources.databases.mariadb.columns import Column, expression, quoted, typed
from sources.databases.mariadb.connector import require_reader
from sources.databases.mariadb.server import (
    Address,
    ask,
    connect,
    connect_raw,
    parse_address,
    query_errors,
    raw_cursor,
)
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_BATCH_ROWS = 20_000
# Attempts to begin all snapshots between two commits.
_ATTEMPTS = 20
_LOCK_WAIT_S = 30


@contextmanager
def open_table(table: CapturedTable) -> Iterator[MariaDbTable]:
    """Connect to a table's database, and check its log, the table, its key and its columns.

    Args:
        table: The table.

    Yields:
        The table; its connections end with the context.

    Raises:
        InputError: The database refuses the login, or the log or the table does not fit.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or the connection was lost.
    """
    address = parse_address(table.options.dsn)
    with query_errors(), ExitStack() as opened:
        connection = opened.enter_context(connect(address, table.source))
        variables = server_variables(connection)
        check_log(connection, table, variables)
        key = check_table(connection, table)
        columns, warnings = read_columns(connection, table, key)
        require_reader(connection, table)
        yield MariaDbTable(table, address, Inspected(variables, columns, key, warnings), opened)


class Inspected(NamedTuple):
    """What the database says of a table and of its log.

    Attributes:
        variables: The server's variables.
        columns: The table's columns by name.
        key: Columns of its primary key.
        warnings: What the table's settings may cause later.
    """

    variables: Mapping[str, str]
    columns: Mapping[str, Column]
    key: Sequence[str]
    warnings: Sequence[str]


class MariaDbTable:
    """MariaDB or MySQL table whose changes can be followed; :func:`open_table` makes it.

    Args:
        table: The table as it is declared.
        address: Its database.
        inspected: What the database says of it.
        opened: Where further connections are entered.

    Attributes:
        warnings: What the table's settings may cause later.
    """

    def __init__(
        self,
        table: CapturedTable,
        address: Address,
        inspected: Inspected,
        opened: ExitStack,
    ) -> None:
        self._table = table
        self._address = address
        self._variables, self._columns, self._key, self.warnings = inspected
        self._opened = opened
        self._readers: Sequence[MariaDbReader] = []

    def readers(self, count: int) -> Sequence[MariaDbReader]:
        """Begin as many snapshots, if possible all at one position of the binary log.

        MariaDB reports each snapshot's own position, so nothing is locked: if others commit in
        between, later readers contain changes that are merged a second time. In a pipeline that
        keeps every change, only readers of the first position are used. MySQL reports no position
        of a snapshot: commits are locked while all begin, for some milliseconds.

        Args:
            count: Number of readers.

        Raises:
            InputError: The server has GTIDs of several domains.
            pymysql.MySQLError: The server refuses, or a connection ended.
        """
        made = [self._opened.enter_context(connect_raw(self._address)) for _ in range(count)]
        if is_mariadb(self._variables):
            found = self._begin_mariadb(made)
        else:
            found = self._begin_mysql(made)
        readers = [
            MariaDbReader(snapshot, connection, self._table, self._columns)
            for snapshot, connection in zip(found, made, strict=True)
        ]
        readers.sort(key=lambda each: (each.snapshot.file, each.snapshot.offset))
        first = readers[0].snapshot
        if not self._table.is_merged:
            readers = [each for each in readers if each.snapshot.offset == first.offset]
        self._readers = readers
        return readers

    def divide(self) -> Division:
        """Return chunks of equal numbers of rows, by the first column of the primary key.

        Raises:
            pymysql.MySQLError: The server refuses, or the connection ended.
        """
        first = self._columns[self._key[0]]
        return divide(self._readers[0].connection, self._table, first)

    def _begin_mariadb(self, made: Sequence[Connection[Cursor]]) -> list[BinlogSnapshot]:
        """Begin a snapshot on each connection, again while others commit in between."""
        for _ in range(_ATTEMPTS):
            for connection in made:
                ask(connection, "ROLLBACK")
            for connection in made:
                ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            places = [_place(connection) for connection in made]
            if len({*places}) == 1:
                break
        taken_ms = _now_ms(made[0])
        return [
            self._snapshot(connection, *place, taken_ms)
            for connection, place in zip(made, places, strict=True)
        ]

    def _snapshot(
        self, connection: Connection[Cursor], file: str, offset: int, taken_ms: int
    ) -> BinlogSnapshot:
        [(state,)] = ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, offset)
        gtids = [each.split("-") for each in _text(state).split(",") if each]
        domains = {int(domain) for domain, _, _ in gtids}
        declared = int(self._variables["gtid_domain_id"])
        is_replica = bool(self._variables.get("gtid_slave_pos"))
        if len(domains) > 1 or (domains and not is_replica and domains != {declared}):
            known = ", ".join(str(each) for each in sorted(domains | {declared}))
            message = (
                f"The binary log has GTIDs of several domains ({known}): the order of changes of "
                "different domains is not known."
            )
            hint = (
                "Let the server write one domain, and remove the others with `FLUSH BINARY LOGS "
                "DELETE_DOMAIN_ID=(…)`, or name a server with one domain in `snapshot.dsn`; then "
                "take the snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._table.source, table=self._table.name)
        return BinlogSnapshot(
            file=file_number(file),
            offset=offset,
            domain=next(iter(domains), declared),
            sequence=max((int(number) for *_, number in gtids), default=0),
            taken_ms=taken_ms,
        )

    def _begin_mysql(self, made: Sequence[Connection[Cursor]]) -> list[BinlogSnapshot]:
        """Begin a snapshot on each connection while no transaction can commit."""
        with connect(self._address, self._table.source) as lock:
            ask(lock, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_S}")
            ask_with_right(lock, "FLUSH TABLES WITH READ LOCK", self._table, "RELOAD")
            for connection in made:
                ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            [(file, offset, *_)] = ask(lock, mysql_status(self._variables["version"]))
            ask(lock, "UNLOCK TABLES")
        snapshot = BinlogSnapshot(
            file=file_number(file),
            offset=int(offset),
            domain=None,
            sequence=0,
            taken_ms=_now_ms(made[0]),
        )
        return [snapshot] * len(made)


class MariaDbReader(NamedTuple):
    """Reader of a table's chunks in the transaction of one connection.

    Attributes:
        snapshot: Position of the transaction's snapshot.
        connection: The connection.
        table: The table.
        columns: Its columns in the database, by name.
    """

    snapshot: BinlogSnapshot
    connection: Connection[Cursor]
    table: CapturedTable
    columns: Mapping[str, Column]

    def rows(self, division: Division, chunk: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk, in batches of 20,000 rows.

        Args:
            division: Division of the table.
            chunk: Number of the chunk, from 0.

        Raises:
            Misfit: A value does not have its column's declared type.
            QueryError: The query fails, or the connection ends.
        """
        schema = parse_schema(self.table.columns)
        there = [self.columns[name] for name in schema.names]
        query = (
            f"SELECT {', '.join(expression(each) for each in there)} "
            f"FROM {'.'.join(map(quoted, self.table.parts))} WHERE {where(division, chunk)}"
        )
        with query_errors(), raw_cursor(self.connection) as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_BATCH_ROWS):
                arrays = [
                    typed(column, field, pa.array(values, pa.binary()))
                    for column, field, values in zip(
                        there, schema, zip(*rows, strict=True), strict=True
                    )
                ]
                yield pa.record_batch(arrays, schema=schema)


def file_number(name: str) -> int:
    """Return the number of a file of the binary log, such as 3 of ``binlog.000003``."""
    return int(name.rpartition(".")[2])


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
