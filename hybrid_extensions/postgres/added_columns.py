"""Added columns of a PostgreSQL table: their types, and their values in older rows.

PostgreSQL stores the default that rows had when a column was added (``attmissingval``), whatever
the default is now, until something rewrites the table.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from hybrid_extensions.cdc.databases.captured_table import NewColumns, UnknownDefault, added_column
from hybrid_extensions.libpq.connections import connect, is_away, server_of
from hybrid_extensions.postgres.tables import describe_table
from sources.common.database_snapshot import PostgresSnapshot
from sources.common.optional import needs_extra
from sources.common.table_definition import PostgresDefinition
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import InputError, UnavailableError

with needs_extra("postgres", "`on_schema_change` with PostgreSQL"):
    import psycopg
    from psycopg import sql

_TIMEOUT_S = 10
# One moment for all questions; a look at all rows may take long.
_SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO -c extra_float_digits=3 -c statement_timeout=0 "
    "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
)
_ATTRIBUTES = (
    "SELECT a.attnum, a.attname::text, "
    "a.attisdropped AND coalesce(age(a.xmin) <= age(%s::text::xid), true), "
    "a.atthasmissing, a.xmin::text, "
    "(a.attmissingval::text::text[])[1] FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 ORDER BY a.attnum"
)


class _Attribute(NamedTuple):
    """A column as the catalog has it.

    Attributes:
        number: Its number: columns are numbered as they are added.
        name: Its name; one that no column can have if it was dropped.
        was_dropped: Whether it was dropped after the snapshot.
        has_missing: Whether rows may lack it, and hold ``missing`` then.
        changed_by: Transaction that changed its entry in the catalog last.
        missing: What such rows hold, as text.
    """

    number: int
    name: str
    was_dropped: bool
    has_missing: bool
    changed_by: str
    missing: str | None


def _xid(transaction: int | None) -> str | None:
    """Return the 32 bits of a transaction's id that rows carry."""
    return None if transaction is None else str(transaction % (1 << 32))


def find_added_columns(new: NewColumns) -> dict[str, AddedColumn]:
    """Return type and default of columns that a table got after its snapshot, by name.

    The default is exact or refused: it is the one that PostgreSQL stores for rows from before the
    column, or null if no row from before has a value. A column that was dropped and added again
    since the snapshot is refused.

    Args:
        new: The columns, their table, and how its database is reached.

    Raises:
        UnknownDefault: The value in older rows, or the column's type, can't be known; says why.
        InputError: The database refuses.
        UnavailableError: The database does not answer.
    """
    table = new.table
    with asking(new.options, table) as connection:
        described = describe_table(connection, table)
        schema, _, name = table.partition(".")
        seen = new.snapshot.xmin if isinstance(new.snapshot, PostgresSnapshot) else None
        rows = connection.execute(_ATTRIBUTES, [_xid(seen), schema, name]).fetchall()
        attributes = [_Attribute(*row) for row in rows]
        there = {each.name: each for each in attributes}
        _require_added_last(attributes, new)
        found = {}
        for column in new.names:
            kind = described.type_of(column)
            default = _default(connection, table, there[column], kind)
            found[column] = added_column(column, kind, default)
        return found


def find_types(options: SnapshotOptions, table: str) -> dict[str, str]:
    """Return the present Spark SQL types of a table's columns, by name.

    Columns that can't be captured are left out.

    Args:
        options: How the database is reached.
        table: The table, ``schema.table``.

    Raises:
        InputError: The database refuses, or has no such table.
        UnavailableError: The database does not answer.
    """
    with asking(options, table) as connection:
        return describe_table(connection, table).columns


@contextmanager
def asking(options: SnapshotOptions, table: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a database to ask for one table's columns, in the body of ``with``.

    All questions are answered as of one moment; nothing can be written.

    Args:
        options: How the database is reached.
        table: The table, ``schema.table``.

    Yields:
        The open connection, which ends with the block.

    Raises:
        InputError: The database refuses the login or a query of the body.
        UnavailableError: The database does not answer, or the connection is lost in the body.
    """
    is_open = False
    try:
        with connect(
            options.dsn,
            application_name="hybrid columns",
            options=_SETTINGS,
            connect_timeout=_TIMEOUT_S,
        ) as connection:
            is_open = True
            yield connection
    except psycopg.Error as error:
        message = (
            f"The database {server_of(options.dsn)} could not be asked for the columns of table "
            f"`{table}`, as `on_schema_change: follow` needs: "
            f"{' '.join(str(error).split()).removesuffix('.')}."
        )
        if is_away(error, options.dsn):
            hint = (
                "Start the database. The run has stopped before the change; if nothing starts it "
                "again, run `hybrid resume P`."
            )
            raise UnavailableError(message, hint, server=server_of(options.dsn)) from None
        hint = (
            f"Grant SELECT on `{table}` to the role that `snapshot.dsn` names"
            if is_open
            else "Set the environment variable PGPASSWORD, for the process that launches runs (the "
            "command line, or Dagster's), to the password of the role that `snapshot.dsn` names; "
            "or correct `snapshot.dsn`"
        )
        hint = f"{hint}. Then run `hybrid resume P`."
        raise InputError(message, hint, server=server_of(options.dsn), table=table) from None


def _require_added_last(attributes: Collection[_Attribute], new: NewColumns) -> None:
    """Refuse columns that may be older ones under another name, or were there before.

    PostgreSQL numbers columns as they are added, and keeps the number of one that is dropped.
    """
    before, at_snapshot = {*new.known, *new.renamed}, set[int]()
    if isinstance(new.definition, PostgresDefinition):
        # Also of those that were dropped or renamed since.
        at_snapshot = {each.number for each in new.definition.columns.values()}
    last = max([*at_snapshot, *(each.number for each in attributes if each.name in before), 0])
    for each in attributes:
        if each.name in new.names and (each.number < last or each.number in at_snapshot):
            reason = (
                f"`{each.name}` was not added but renamed. PostgreSQL does not store which values "
                "older rows have in it: if it is declared in `added_columns`, rows that the target "
                "holds already get null, or the default that is declared there"
            )
            raise UnknownDefault(reason)
        if each.was_dropped and each.number > last:
            reason = (
                f"a column was dropped from table `{new.table}` after the last known one had been "
                "added, so that changes may hold another column's values under the same name"
            )
            raise UnknownDefault(reason)


def _default(
    connection: psycopg.Connection[Any], table: str, column: _Attribute, kind: str
) -> bool | int | float | str | None:
    """Return the value of a column in rows from before it was added."""
    if not column.has_missing:
        _require_null_before(connection, table, column)
        return None
    if column.missing is None:
        return None
    read = _READERS.get(kind.partition("(")[0])
    if read is None:
        reason = f"`{column.name}` has a default, of type {kind}, which can't be followed"
        raise UnknownDefault(reason)
    return read(column.missing)


def _require_null_before(
    connection: psycopg.Connection[Any], table: str, column: _Attribute
) -> None:
    """Refuse a column that has a value in a row from before it was added.

    PostgreSQL has forgotten the default of such rows if the table was rewritten since (VACUUM
    FULL, another type), and never had one if it is computed for each row. A row that was written
    last no later than the column's entry in the catalog was, and has a value, shows either.
    """
    schema, _, name = table.partition(".")
    query = sql.SQL(
        "SELECT EXISTS (SELECT FROM {table} AS t WHERE t.{column} IS NOT NULL "
        "AND age(t.xmin) >= age({changed}::text::xid))"
    ).format(
        table=sql.Identifier(schema, name),
        column=sql.Identifier(column.name),
        # Next to a parameter, a `%` in a name would be one, too.
        changed=sql.Literal(column.changed_by),
    )
    row = connection.execute(query).fetchone()
    if row is None or row[0]:
        reason = (
            f"rows of table `{table}` from before `{column.name}` was added, or of the transaction "
            "that added it, have values in it, and PostgreSQL stores no default for them: the "
            "default is computed for each row, or the table was rewritten since"
        )
        raise UnknownDefault(reason)


def _float(text: str) -> float | str:
    number = float(text)
    # A document has no such number; as a text it is refused.
    return number if math.isfinite(number) else text


_READERS: Mapping[str, Callable[[str], bool | int | float | str]] = {
    "boolean": lambda text: text in ("t", "true"),
    "smallint": int,
    "int": int,
    "bigint": int,
    "float": _float,
    "double": _float,
    "decimal": lambda text: str(Decimal(text)),
    "string": str,
    "date": str,
    "timestamp": str,
}
