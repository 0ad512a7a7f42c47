"""A PostgreSQL table that is read under one snapshot, which all readers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from hybrid_extensions.cdc.databases.captured_table import (
    CapturedTable,
    Division,
    Exported,
    QueryError,
)
from hybrid_extensions.cdc.databases.connector_lists import publication_of
from hybrid_extensions.libpq.connections import connect, is_away, limited, server_of
from hybrid_extensions.postgres.capture_checks import require_capturable
from hybrid_extensions.postgres.chunks import divide, where
from hybrid_extensions.postgres.rows import Database, selected
from hybrid_extensions.postgres.table_checks import check_columns, check_publication, check_slot
from hybrid_extensions.postgres.watch.catalog_definition import read_definition
from hybrid_extensions.postgres.watch.publication import read_publication
from sources.common.database_snapshot import DatabaseSnapshot, PostgresSnapshot
from sources.common.optional import needs_extra
from sources.common.schema import parse_schema
from sources.common.table_definition import PostgresDefinition
from sources.errors import InputError, RunError, UnavailableError

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import psycopg
    from psycopg import sql

_SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO "
    "-c idle_in_transaction_session_timeout=0 -c statement_timeout=0 "
    # An error instead of a part of the rows (https://www.postgresql.org/docs/current/ddl-rowsecurity.html).
    "-c row_security=off"
)


@contextmanager
def open_table(table: CapturedTable) -> Iterator[PostgresTable]:
    """Connect to a table's database; check its columns, replication slot and publication.

    Args:
        table: The table.

    Yields:
        The table; its connections end with the context.

    Raises:
        InputError: The database refuses the login, or some changes of the table would not arrive.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or the connection was lost.
    """
    conninfo = _conninfo(table)
    with _query_errors(), _connect(table, conninfo) as connection, ExitStack() as opened:
        publication = publication_of(table.options)
        if publication is None:
            publication = read_publication(connection, table.options.log_reader)
        told = require_capturable(
            connection,
            table.name,
            table.columns,
            table.sink,
            truncates=table.truncates,
            publication=publication,
        )
        types, warnings = check_columns(connection, table)
        check_slot(connection, table)
        check_publication(connection, table, publication)
        made = PostgresTable(table, (conninfo, connection), opened, types, [*told, *warnings])
        yield made


@contextmanager
def export(table: CapturedTable) -> Iterator[Exported]:
    """Export a snapshot of a table's database, which lasts as long as the context.

    Args:
        table: A table, by which the database is reached.

    Yields:
        The snapshot and its name, under which other tables can be read, too.

    Raises:
        InputError: The database refuses the login.
        UnavailableError: The database does not answer.
        QueryError: A query failed, or the connection was lost.
        RunError: PostgreSQL returned no snapshot.
    """
    with _query_errors(), _connect(table, _conninfo(table)) as connection:
        yield _export(connection)


@contextmanager
def _query_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        # https://www.psycopg.org/psycopg3/docs/api/errors.html
        lost = isinstance(error, psycopg.OperationalError)
        raise QueryError(str(error), is_connection_lost=lost) from None


def _conninfo(table: CapturedTable) -> str:
    return limited(table.options.dsn, application_name="hybrid snapshot", options=_SETTINGS)


class PostgresTable:
    """PostgreSQL table whose changes can be followed; :func:`open_table` makes it.

    Use :meth:`readers`, then :meth:`divide`, then the readers' ``rows``.

    Args:
        table: The table as it is declared.
        session: Connection string of the database, and an open connection to it.
        opened: Further connections are entered here, and end with it.
        types: PostgreSQL's type of each column, by name.
        warnings: Sentences about problems that the table's settings may cause later.

    Attributes:
        warnings: As given.
        definition: Definition of the table in the catalog, as its snapshot sees it; None before
            :meth:`readers`.
    """

    definition: PostgresDefinition | None = None

    def __init__(
        self,
        table: CapturedTable,
        session: tuple[str, psycopg.Connection[Any]],
        opened: ExitStack,
        types: dict[str, str],
        warnings: Sequence[str],
    ) -> None:
        self._table = table
        self._conninfo, self._connection = session
        self._opened = opened
        self._types = types
        self.warnings = warnings

    def readers(self, count: int) -> Sequence[PostgresReader]:
        """Export a snapshot, which lasts as long as the connection; return readers that share it.

        Args:
            count: Number of readers.

        Raises:
            RunError: PostgreSQL returned no snapshot.
            QueryError: The database can't be reached again.
            psycopg.Error: The database refuses, or the connection ends.
        """
        snapshot, exported, _ = self._table.exported or _export(self._connection)
        if self._table.exported is not None:
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._connection.execute(
                sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported))
            )
        self.definition = read_definition(self._connection, self._table.name)
        # The driver takes a while to open a database: once for all readers.
        database = self._opened.enter_context(Database(self._conninfo))
        reader = PostgresReader(snapshot, exported, database, self._table, self._types)
        return [reader] * count

    def divide(self, known: Division | None = None) -> Division:
        """Return chunks of the table, as its statistics and its newest rows are.

        Args:
            known: An earlier division, whose last chunk is divided further.

        Raises:
            psycopg.Error: The database refuses, or the connection ends.
        """
        return divide(self._connection, self._table, known)


class PostgresReader(NamedTuple):
    """Reader of a PostgreSQL table's chunks under an exported snapshot; threads may share it.

    Attributes:
        snapshot: The snapshot, which says which transactions the rows contain.
        exported: Name of the exported snapshot.
        database: The database that rows are read from.
        table: The table.
        types: PostgreSQL's type of each column, by name.
    """

    snapshot: DatabaseSnapshot
    exported: str
    database: Database
    table: CapturedTable
    types: dict[str, str]

    def rows(self, division: Division, chunk: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk, in batches of about 64 MiB.

        Args:
            division: Division of the table.
            chunk: Number of the chunk, from 0.

        Raises:
            Misfit: A value does not have its column's declared type.
            QueryError: The query fails, or the connection ends.
        """
        columns = parse_schema(self.table.columns)
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
            selected(columns, self.types),
            sql.Identifier(*self.table.parts),
            where(division, chunk),
        )
        yield from self.database.rows(self.exported, query, columns)


def _connect(table: CapturedTable, conninfo: str) -> psycopg.Connection[Any]:
    try:
        return connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        dsn = table.options.dsn
        server = server_of(dsn)
        text = " ".join(str(error).split()).rstrip(".")
        message = f"Connecting to the database {server} failed: {text}."
        if is_away(error, dsn):
            hint = (
                "Start the server, or correct host and port in `snapshot.dsn`; then take the "
                "snapshot again: `hybrid snapshot P`."
            )
            raise UnavailableError(message, hint, source=table.source, server=server) from None
        hint = (
            "Correct database and user in `snapshot.dsn`, or set the environment variable "
            "PGPASSWORD to the password; then take the snapshot again: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, server=server) from None


def _export(connection: psycopg.Connection[Any]) -> Exported:
    """Export a snapshot, which other sessions can use while this one lives; return its name too."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    row = connection.execute(
        "SELECT pg_export_snapshot(), pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, "
        "ARRAY(SELECT x::text FROM pg_snapshot_xip(s) x), "
        # Read after the snapshot was taken, so that it is not before it.
        "(pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, "
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
        "FROM pg_current_snapshot() s"
    ).fetchone()
    if row is None:
        message = "PostgreSQL returned no row for pg_current_snapshot()."
        hint = (
            "Take the snapshot again: `hybrid snapshot P`. If this happens again, check that "
            "`snapshot.dsn` leads to a PostgreSQL server."
        )
        raise RunError(message, hint)
    name, xmin, xmax, running, lsn, taken_ms = row
    seen = PostgresSnapshot(
        lsn=lsn,
        xmin=int(xmin),
        xmax=int(xmax),
        in_progress=sorted(map(int, running)),
        taken_ms=taken_ms,
    )
    return Exported(seen, name)
