"""MariaDB or MySQL table, read under snapshots: readers at known log positions, and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pyarrow as pa

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division, Exported
from hybrid_extensions.mariadb.catalog_definition import read_definition
from hybrid_extensions.mariadb.log.connector import require_reader
from hybrid_extensions.mariadb.server import (
    Address,
    connect,
    parse_address,
    query_errors,
    raw_cursor,
)
from hybrid_extensions.mariadb.snapshot.begin import at_first_position, begin
from hybrid_extensions.mariadb.snapshot.capture_checks import (
    check_log,
    check_table,
    read_columns,
    server_variables,
)
from hybrid_extensions.mariadb.snapshot.chunks import divide, where
from hybrid_extensions.mariadb.snapshot.columns import Column, expression, typed
from hybrid_extensions.mariadb.snapshot.debezium_texts import quoted
from hybrid_extensions.mariadb.snapshot.same_server import require_same_server
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.optional import needs_extra
from sources.common.schema import parse_schema
from sources.common.table_definition import BinlogDefinition

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_BATCH_ROWS = 20_000


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
        key = check_table(connection, table, variables)
        columns, warnings = read_columns(connection, table, key)
        # Before the snapshot: what is altered in between is then found later.
        definition = read_definition(connection, table.name)
        require_reader(connection, table)
        require_same_server(connection, table, variables)
        inspected = Inspected(variables, columns, key, warnings, definition)
        yield MariaDbTable(table, address, inspected, opened)


@contextmanager
def export(table: CapturedTable) -> Iterator[Exported]:
    """Begin transactions at one position of the log, which last as long as the context.

    Unlike one table's readers, all of them are at the first position: what is read under them is
    the database at one point in time. There may be fewer than ``workers`` if others commit all the
    time.

    Args:
        table: A table, by which the database is reached.

    Yields:
        The snapshot, with its open connections, under which other tables can be read, too.

    Raises:
        InputError: The database refuses the login, its log does not fit, or no connector reads it.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or the connection was lost.
    """
    address = parse_address(table.options.dsn)
    with query_errors(), ExitStack() as opened:
        with connect(address, table.source) as connection:
            variables = server_variables(connection)
            # Before the snapshot: what it does not contain has to be in the log, and be read.
            check_log(connection, table, variables)
            require_reader(connection, table)
            require_same_server(connection, table, variables)
        begun = at_first_position(begin(table, address, variables, opened, table.options.workers))
        yield Exported(begun[0][0], sessions=[session for _, session in begun])


class Inspected(NamedTuple):
    """Results of checking a table and its log.

    Attributes:
        variables: The server's variables.
        columns: The table's columns by name.
        key: Columns of its primary key.
        warnings: Sentences about problems that the table's settings may cause later.
        definition: Definition of the table in the catalog; None if it can't be read.
    """

    variables: Mapping[str, str]
    columns: Mapping[str, Column]
    key: Sequence[str]
    warnings: Sequence[str]
    definition: BinlogDefinition | None


class MariaDbTable:
    """MariaDB or MySQL table whose changes can be followed; :func:`open_table` makes it.

    Use :meth:`readers`, then :meth:`divide`, then the readers' ``rows``.

    Args:
        table: The table as it is declared.
        address: Its database.
        inspected: Results of checking it.
        opened: Further connections are entered here, and end with it.

    Attributes:
        warnings: Sentences about problems that the table's settings may cause later.
        definition: Definition of the table in the catalog; None if it can't be read.
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
        self._variables, self._columns, self._key = inspected[:3]
        self.warnings, self.definition = inspected.warnings, inspected.definition
        self._opened = opened
        self._readers: Sequence[MariaDbReader] = []

    def readers(self, count: int) -> Sequence[MariaDbReader]:
        """Begin a number of snapshots, and return a reader for each; the first is the earliest.

        If others commit in between, later readers contain changes that are merged a second time. In
        a pipeline that keeps every change, and under a snapshot that tables share, only readers of
        the first position are used, so that there may be fewer.

        Args:
            count: Number of readers; without effect under a shared snapshot, which has its own
                sessions.

        Raises:
            InputError: The server has GTIDs of several domains, or MySQL's lock was not granted.
            UnavailableError: MySQL does not answer the connection that locks commits.
            QueryError: MariaDB reports no position.
            pymysql.MySQLError: The server refuses, or a connection ended.
        """
        if (exported := self._table.exported) is not None:
            begun: Sequence[tuple[DatabaseSnapshot, Connection[Cursor]]] = [
                (exported.snapshot, session) for session in exported.sessions
            ]
        else:
            own = begin(self._table, self._address, self._variables, self._opened, count)
            begun = own if self._table.is_merged else at_first_position(own)
        self._readers = [
            MariaDbReader(snapshot, connection, self._table, self._columns)
            for snapshot, connection in begun
        ]
        return self._readers

    def divide(self, known: Division | None = None) -> Division:
        """Return chunks of equal numbers of rows, by the first column of the primary key.

        Called after :meth:`readers`, whose first snapshot it reads.

        Args:
            known: Chunks that were divided earlier, which stay as they are but for the last one.

        Raises:
            pymysql.MySQLError: The server refuses, or the connection ended.
        """
        first = self._columns[self._key[0]]
        connection = self._readers[0].connection
        if known is None:
            return divide(connection, self._table, first)
        found = divide(connection, self._table, first, known.bounds)
        return known.extended(found.bounds[len(known.bounds) :])


class MariaDbReader(NamedTuple):
    """Reader of a table's chunks in the transaction of one connection, for one thread.

    Attributes:
        snapshot: The snapshot of the transaction, with its log position.
        connection: Open connection, within the transaction.
        table: The table.
        columns: Columns of the table in the database, by name.
    """

    snapshot: DatabaseSnapshot
    connection: Connection[Cursor]
    table: CapturedTable
    columns: Mapping[str, Column]

    def rows(self, division: Division, chunk: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk, in batches of up to 20,000 rows; none if it has no rows.

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
