"""Rows of a PostgreSQL query as Arrow batches; infinite times and nested arrays are refused.

The driver decodes PostgreSQL's binary COPY outside Python: other threads run meanwhile, and one
batch is in memory rather than the whole result. It converts only some types as they are needed
here. All others are asked for as the text that PostgreSQL prints, which Arrow then parses: the
driver wraps an ``oid`` of 2^31 and more to a negative number, and returns decimals as text anyway.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from hybrid_extensions.cdc.databases.captured_table import Misfit, QueryError
from sources.common.optional import needs_extra
from sources.common.schema import TIMESTAMP, type_name
from sources.decoding.batch_cursor import DAYS, MICROS

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import adbc_driver_postgresql.dbapi as adbc
    from adbc_driver_postgresql import StatementOptions
    from psycopg import sql

_BATCH_BYTES = 64 << 20
_INTEGERS = {"smallint", "integer", "bigint"}
# By Arrow type: PostgreSQL's types that the driver converts without a change of any value.
_NATIVE = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), _INTEGERS),
    pa.float32(): {"real"},
    pa.float64(): {"double precision"},
    pa.bool_(): {"boolean"},
    pa.binary(): {"bytea"},
    pa.date32(): {"date"},
    pa.string(): {"text", "character varying", "character"},
}
_ARRAY = "[]"
_NESTED = "has an array of more than one dimension"
# What Python's and Spark's times hold, in the unit of the type.
_BOUNDS = {pa.date32(): (pa.int32(), *DAYS), TIMESTAMP: (pa.int64(), *MICROS)}


class Database:
    """PostgreSQL database for reading from several threads; a context manager that closes it.

    The driver reads the names of all tables' columns when a database is opened, which takes seconds
    where there are thousands of tables: open it once for all queries.

    Args:
        conninfo: Connection string of libpq; the password may be in ``PGPASSWORD``.

    Raises:
        QueryError: The database can't be reached.
    """

    def __init__(self, conninfo: str) -> None:
        with _query_errors():
            self._opened = adbc.connect(conninfo, autocommit=True)
        # The driver counts its connections without a lock of its own.
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def rows(
        self, exported: str, query: sql.Composable, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield a query's rows under an exported database snapshot.

        In batches of about 64 MiB, of which one is in memory at a time.

        Args:
            exported: Name of the snapshot, from ``pg_export_snapshot()``; the transaction that
                exported it must be open.
            query: Selects the columns that :func:`selected` lists.
            columns: Their names and types.

        Raises:
            Misfit: A value does not have its column's type.
            QueryError: The query fails, or the connection ends.
        """
        with _query_errors(), self._connection() as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute(f"SET TRANSACTION SNAPSHOT {sql.Literal(exported).as_string()}")
            size = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
            cursor.adbc_statement.set_options(**size)
            cursor.execute(query.as_string())
            for batch in cursor.fetch_record_batch():
                arrays = [_typed(each, batch[each.name]) for each in columns]
                yield pa.record_batch(arrays, schema=columns)

    @contextmanager
    def _connection(self) -> Iterator[adbc.Connection]:
        """A connection of its own, in a transaction."""
        with self._lock:
            made = self._opened.adbc_clone()
        try:
            yield made
        finally:
            with self._lock:
                made.close()


def selected(columns: pa.Schema, types: Mapping[str, str]) -> sql.Composable:
    """Return the SELECT list of a query for :meth:`Database.rows`.

    It asks for a column as text where the driver would change a value.

    Args:
        columns: Names and Arrow types to read.
        types: PostgreSQL's type of each column, as ``regtype`` prints it, by name.

    Raises:
        Misfit: A column's type can't be read as the declared one; names the column.
    """
    return sql.SQL(", ").join(_expression(each, types[each.name]) for each in columns)


@contextmanager
def _query_errors() -> Iterator[None]:
    """Raise what the driver raises as a :class:`QueryError`, or what a query says as a Misfit."""
    try:
        yield
    # Arrow turns what the driver meets between two batches into an OSError.
    except (adbc.Error, OSError) as error:
        if nested := re.search(f"column `[^`]*` {_NESTED}", str(error)):
            raise Misfit(nested[0]) from None
        lost = isinstance(error, (adbc.OperationalError, OSError))
        raise QueryError(str(error), is_connection_lost=lost) from None


def _expression(column: pa.Field, found: str) -> sql.Composable:
    """Return SQL for a column in a form that :func:`_typed` converts, under the same name."""
    name = sql.Identifier(column.name)
    if pa.types.is_list(column.type):
        return _array_expression(column, found)
    if column.type == TIMESTAMP:
        return sql.SQL("{0}::timestamptz AS {0}").format(name)
    if found in _NATIVE.get(column.type, ()):
        return name
    if pa.types.is_binary(column.type):
        message = f"column `{column.name}` is of PostgreSQL's type {found}, which is no binary"
        raise Misfit(message)
    # Not `::text`, which prints booleans, addresses and padded strings in other ways than COPY.
    text = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END AS {0}"
    return sql.SQL(text).format(name)


def _array_expression(column: pa.Field, found: str) -> sql.Composable:
    """Return SQL for an array column in a form that :func:`_typed` converts, same name."""
    name, item = sql.Identifier(column.name), column.type.value_type
    found_item = found.removesuffix(_ARRAY)
    if found_item == found or (pa.types.is_binary(item) and found_item != "bytea"):
        message = (
            f"column `{column.name}` is of PostgreSQL's type {found}, which is no "
            f"{type_name(column.type)}"
        )
        raise Misfit(message)
    # The driver would read an array of several dimensions as one list. SQL has no function that
    # fails, so the query fails at what this text is not: an array.
    told = f"column `{column.name}` {_NESTED}"
    flat = sql.SQL("CASE WHEN array_ndims({0}) > 1 THEN {1}::text::{2} ELSE {0} END")
    one = flat.format(name, sql.Literal(told), sql.SQL(found))
    if item == TIMESTAMP:
        return sql.SQL("({0})::timestamptz[] AS {1}").format(one, name)
    if found_item in _NATIVE.get(item, ()):
        return sql.SQL("{0} AS {1}").format(one, name)
    return sql.SQL("({0})::text[] AS {1}").format(one, name)


def _typed(column: pa.Field, found: pa.Array) -> pa.Array:
    """Convert values as the driver returns them to the column's type."""
    try:
        typed = found.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"column `{column.name}` has a value that is no {type_name(column.type)}: {error}"
        raise Misfit(message) from None
    values = pc.list_flatten(typed) if pa.types.is_list(typed.type) else typed
    if values.type in _BOUNDS:
        plain, low, high = _BOUNDS[values.type]
        ends = pc.min_max(values.view(plain)).as_py()
        if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
            message = (
                f"column `{column.name}` has a value that is infinite, or not in year 1 to 9999"
            )
            raise Misfit(message)
    return typed
