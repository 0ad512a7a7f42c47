"""Definition of a table in PostgreSQL's catalog, and the age of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sources.common.table_definition import PostgresColumn, PostgresDefinition, PostgresFile

if TYPE_CHECKING:
    import psycopg

_TABLE = (
    "SELECT c.oid::text, c.relreplident::text, "
    "pg_snapshot_xmin(pg_current_snapshot())::text "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname = %s"
)
_COLUMNS = (
    "SELECT a.attname::text, a.attnum::int, format_type(a.atttypid, a.atttypmod), a.xmin::text, "
    "ARRAY(SELECT ARRAY[e.oid::text, e.enumlabel::text] FROM pg_enum e "
    "WHERE e.enumtypid IN (t.oid, t.typelem, t.typbasetype)), "
    "a.atthasdef OR a.attidentity <> '' "
    "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_KEY = (
    "SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place), "
    "pg_attribute a WHERE i.indrelid = %s::oid AND i.indisprimary "
    "AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place"
)
# Nothing writes the entry of a system column again, so it has the transaction of the CREATE TABLE.
_FILES = (
    "WITH RECURSIVE tree(id, attached, command) AS (SELECT %s::oid, '', 0 UNION ALL "
    "SELECT i.inhrelid, i.xmin::text, i.cmin::text::int "
    "FROM pg_inherits i JOIN tree ON i.inhparent = tree.id) "
    "SELECT c.oid::text, n.nspname || '.' || c.relname, c.relfilenode::text, c.xmin::text, "
    "tree.attached, tree.command, pg_relation_size(c.oid) = 0, coalesce(a.xmin::text, '') "
    "FROM tree JOIN pg_class c ON c.oid = tree.id "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'ctid' AND a.attnum < 0 "
    "WHERE c.relkind <> 'p'"
)
# Entries of a table and of its indexes: whatever gives it another file does so to the indexes, too.
_ENTRIES = (
    "SELECT xmin AS x, cmin::text::bigint AS c FROM pg_class WHERE oid = {oid}::oid "
    "OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = {oid}::oid)"
)
# Transactions have ids of 32 bits where rows carry them.
_WRAP = 1 << 32
# Rows that are looked at for one that was not rewritten: the first ones are the oldest.
_ROWS = 100_000
# A row that an update locked, or began to replace, has the command of that.
_IS_OF = "x::text = {transaction} AND ended = '0'"


def read_definition(connection: psycopg.Connection[Any], table: str) -> PostgresDefinition | None:
    """Return a table's definition in the catalog; None if the table does not exist.

    Args:
        connection: Open connection to the database.
        table: The table, ``schema.table``.

    Raises:
        psycopg.Error: The server refuses, or the connection ends.
    """
    schema, _, name = table.partition(".")
    row = connection.execute(_TABLE, [schema, name]).fetchone()
    if row is None:
        return None
    oid, identity, horizon = row
    columns = {
        name: PostgresColumn(
            number=number,
            type=kind,
            changed_by=changed_by,
            labels=dict(labels or []),
            has_default=has_default,
        )
        for name, number, kind, changed_by, labels, has_default in connection.execute(
            _COLUMNS, [oid]
        )
    }
    files = {
        file: PostgresFile(
            name=name,
            node=node,
            written_by=written_by,
            attached_by=attached_by,
            attached_at=attached_at,
            is_empty=is_empty,
            created_by=created_by,
        )
        for (
            file,
            name,
            node,
            written_by,
            attached_by,
            attached_at,
            is_empty,
            created_by,
        ) in connection.execute(_FILES, [oid])
    }
    return PostgresDefinition(
        oid=oid,
        identity=identity,
        key=[name for (name,) in connection.execute(_KEY, [oid])],
        columns=columns,
        files=files,
        horizon=str(int(horizon) % _WRAP),
    )


class Rows(Protocol):
    """Interface for questions about the age of a table's rows.

    Tables are named by their oid as text, transactions by ids of 32 bits as text.
    """

    def has_older(self, oid: str, transaction: str) -> bool:
        """Return whether the table has a row that was written before a transaction."""

    def has_earlier(self, oid: str, transaction: str, command: int) -> bool:
        """Return whether a row was written by a transaction before one of its commands.

        Args:
            oid: The table.
            transaction: The transaction.
            command: Number of the command within it.
        """

    def has_rewritten(self, oid: str, transaction: str) -> bool:
        """Return whether a transaction wrote a row before it put the table's file in place.

        So ALTER TABLE does as it rewrites rows; what is inserted after a TRUNCATE comes later.
        """

    def has_older_than_file(self, oid: str, horizon: str) -> bool:
        """Return whether a row was written before the table's file was put in place.

        Args:
            oid: The table, which has got another file.
            horizon: All transactions before this one had ended while it had the older file.
        """


class RowsOf:
    """Age, by transaction ids, of a PostgreSQL table's rows: from its first 100,000, the oldest.

    Implements :class:`Rows`. A table that does not exist has no rows. Its methods raise
    ``psycopg.Error`` if the server does not answer, or refuses.

    Args:
        connection: Open connection to the database.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def has_older(self, oid: str, transaction: str) -> bool:
        """Return whether a row was written before a transaction; see :meth:`Rows.has_older`."""
        return self._has(oid, "age(x) > age({transaction}::text::xid)", transaction=transaction)

    def has_earlier(self, oid: str, transaction: str, command: int) -> bool:
        """Return whether a transaction wrote a row before one of its commands.

        See :meth:`Rows.has_earlier`.
        """
        condition = f"{_IS_OF} AND c < {{command}}::bigint"
        return self._has(oid, condition, transaction=transaction, command=command)

    def has_rewritten(self, oid: str, transaction: str) -> bool:
        """Return whether a transaction has rewritten rows; see :meth:`Rows.has_rewritten`."""
        # Without an entry the file was put in place again since, such as by VACUUM FULL.
        condition = (
            f"{_IS_OF} AND c <= coalesce((SELECT min(e.c) FROM ({_ENTRIES}) AS e "
            "WHERE e.x::text = {transaction}), c)"
        )
        return self._has(oid, condition, transaction=transaction)

    def has_older_than_file(self, oid: str, horizon: str) -> bool:
        """Return whether a row is older than the file; see :meth:`Rows.has_older_than_file`."""
        condition = (
            f"age(x) > (SELECT max(age(e.x)) FROM ({_ENTRIES}) AS e "
            "WHERE age(e.x) <= age({horizon}::text::xid))"
        )
        return self._has(oid, condition, horizon=horizon)

    def _has(self, oid: str, condition: str, **values: object) -> bool:
        from psycopg import sql  # noqa: PLC0415 - the package may be missing

        named = self._connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.oid = %s::oid AND c.relkind = 'r'",
            [oid],
        ).fetchone()
        if named is None:
            return False
        query = sql.SQL(
            "SELECT EXISTS (SELECT FROM (SELECT xmin AS x, cmin::text::bigint AS c, "
            "xmax::text AS ended FROM ONLY {} LIMIT {}) AS t WHERE {})"
        ).format(
            sql.Identifier(*named),
            sql.Literal(_ROWS),
            sql.SQL(condition).format(
                oid=sql.Literal(oid), **{name: sql.Literal(each) for name, each in values.items()}
            ),
        )
        row = self._connection.execute(query).fetchone()
        return row is not None and bool(row[0])
