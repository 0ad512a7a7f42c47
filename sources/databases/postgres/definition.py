"""A table in PostgreSQL's catalog, and what was done to it that no change reports.

PostgreSQL decodes changes of rows only: what an ALTER TABLE does to the rows that are there, and
what becomes of a table whose name another one gets, is in no change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    "WHERE e.enumtypid IN (t.oid, t.typelem, t.typbasetype)) "
    "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_KEY = (
    "SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place), "
    "pg_attribute a WHERE i.indrelid = %s::oid AND i.indisprimary "
    "AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place"
)
_FILES = (
    "WITH RECURSIVE tree(id, attached, command) AS (SELECT %s::oid, '', 0 UNION ALL "
    "SELECT i.inhrelid, i.xmin::text, i.cmin::text::int "
    "FROM pg_inherits i JOIN tree ON i.inhparent = tree.id) "
    "SELECT c.oid::text, n.nspname || '.' || c.relname, c.relfilenode::text, c.xmin::text, "
    "tree.attached, tree.command, pg_relation_size(c.oid) = 0 "
    "FROM tree JOIN pg_class c ON c.oid = tree.id "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind <> 'p'"
)
# Transactions have ids of 32 bits where rows carry them.
_WRAP = 1 << 32
# Rows that are looked at for one that was not rewritten: the first ones are the oldest.
_ROWS = 100_000
_NUMBER = re.compile(r"numeric\((\d+),(-?\d+)\)")
_LENGTH = re.compile(r"(character varying|bit varying|timestamp|time|interval)\((\d+)\)(.*)")
_INTEGERS = ("smallint", "integer", "bigint")
_WIDER = {
    ("real", "double precision"),
    ("character varying", "text"),
    ("json", "text"),
    ("uuid", "text"),
}


def read_definition(connection: psycopg.Connection[Any], table: str) -> PostgresDefinition | None:
    """Return what the catalog says of a table, as the connection's transaction sees it.

    Args:
        connection: Open connection to the database.
        table: The table, ``schema.table``.

    Returns:
        None if there is no such table.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    schema, _, name = table.partition(".")
    row = connection.execute(_TABLE, [schema, name]).fetchone()
    if row is None:
        return None
    oid, identity, horizon = row
    columns = {
        name: PostgresColumn(
            number=number, type=kind, changed_by=changed_by, labels=dict(labels or [])
        )
        for name, number, kind, changed_by, labels in connection.execute(_COLUMNS, [oid])
    }
    files = {
        file: PostgresFile(
            name=name,
            node=node,
            written_by=written_by,
            attached_by=attached_by,
            attached_at=attached_at,
            is_empty=is_empty,
        )
        for file, name, node, written_by, attached_by, attached_at, is_empty in connection.execute(
            _FILES, [oid]
        )
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
    """Questions about the rows of a table or partition, by its id in the catalog."""

    def has_older(self, oid: str, transaction: str, command: int = 0) -> bool:
        """Return whether a row was written before a command of a transaction of an id of 32 bits.

        By default before the whole transaction.
        """

    def has_of(self, oid: str, transaction: str) -> bool:
        """Return whether a row was written by a transaction of an id of 32 bits."""


class RowsOf:
    """Questions that a database answers by the first 100,000 rows, which are the oldest.

    Its methods raise ``psycopg.Error`` if the server does not answer, or refuses.

    Args:
        connection: Open connection to the database.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def has_older(self, oid: str, transaction: str, command: int = 0) -> bool:
        """Return whether a row was written before a command of a transaction."""
        condition = (
            "age(x) > age({0}::text::xid) OR (x::text = {0} AND c::text::bigint < {1}::bigint)"
        )
        return self._has(oid, condition, transaction, command)

    def has_of(self, oid: str, transaction: str) -> bool:
        """Return whether a row was written by a transaction."""
        return self._has(oid, "x::text = {0}", transaction)

    def _has(self, oid: str, condition: str, *values: object) -> bool:
        from psycopg import sql  # noqa: PLC0415 - the package may be missing

        named = self._connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.oid = %s::oid AND c.relkind = 'r'",
            [oid],
        ).fetchone()
        if named is None:
            return False
        query = sql.SQL(
            "SELECT EXISTS (SELECT FROM (SELECT xmin AS x, cmin AS c FROM ONLY {} LIMIT {}) AS t "
            "WHERE {})"
        ).format(
            sql.Identifier(*named),
            sql.Literal(_ROWS),
            sql.SQL(condition).format(*map(sql.Literal, values)),
        )
        row = self._connection.execute(query).fetchone()
        return row is not None and bool(row[0])


def find_alteration(
    before: PostgresDefinition,
    now: PostgresDefinition | None,
    names: Mapping[str, str],
    rows: Rows,
) -> str | None:
    """Return what was done to a table that no change reports, as a predicate; None if nothing.

    Columns that were added, dropped or renamed are not looked at: the changes show these.

    Args:
        before: The table at the last look, or at its snapshot.
        now: The table now; None if there is none of its name.
        names: Names of the captured columns then, and now.
        rows: Answers about rows.
    """
    if now is None:
        return "is no longer there: it was dropped or renamed"
    if now.oid != before.oid:
        return "is another one now: the captured one was dropped or renamed"
    if sorted(now.key) != sorted(before.key):
        were = _listed(before.key)
        return f"has another primary key now: {_listed(now.key)} instead of {were}"
    if now.identity in ("i", "n") and now.identity != before.identity:
        what = "NOTHING" if now.identity == "n" else "USING INDEX"
        return f"has REPLICA IDENTITY {what} now: deletes may no longer carry its key"
    both = {id_ for id_ in before.files if id_ in now.files}
    moved = {id_ for id_ in both if now.files[id_].node != before.files[id_].node}
    for name, present in names.items():
        if name not in before.columns or present not in now.columns:
            continue
        old, new = before.columns[name], now.columns[present]
        if (found := _column(present, old, new)) is not None:
            return found
        is_same = new.type == old.type and new.changed_by != old.changed_by
        if is_same and any(rows.has_of(id_, new.changed_by) for id_ in moved):
            return (
                f"was rewritten by a statement on column `{present}`, as ALTER COLUMN … TYPE … "
                "USING does: the rows that were there may have other values"
            )
    writers = {each.changed_by for each in now.columns.values()}
    for id_ in sorted(moved):
        writer = now.files[id_].written_by
        if writer not in writers and rows.has_of(id_, writer):
            return "was rewritten, as SET LOGGED does: changes while it was UNLOGGED are in no log"
    return _partitions(before, now, moved, rows)


def _column(name: str, old: PostgresColumn, new: PostgresColumn) -> str | None:
    """Return what was done to a column by itself."""
    if new.number != old.number:
        return f"has another column named `{name}`: it was dropped and added, or renamed"
    gone = [label for id_, label in old.labels.items() if new.labels.get(id_) != label]
    is_same = new.type == old.type or (old.labels and old.labels.keys() <= new.labels.keys())
    if not is_same and not keeps_values(old.type, new.type):
        return (
            f"has column `{name}` of type {new.type} now, which was {old.type}: the rows that were "
            "there may have other values"
        )
    if gone and is_same:
        return (
            f"has other values in rows with `{gone[0]}` in column `{name}`, a value of {old.type} "
            "that was renamed"
        )
    return None


def _partitions(
    before: PostgresDefinition, now: PostgresDefinition, moved: set[str], rows: Rows
) -> str | None:
    """Return what was done to partitions by themselves."""
    old, new = before.files, now.files
    for id_, file in old.items():
        if id_ not in new:
            return f"has lost partition {file.name}, which was dropped or detached"
        if new[id_].attached_by != file.attached_by:
            return f"has partition {file.name} that was detached and attached again"
    for id_ in sorted(new.keys() - old.keys()):
        if rows.has_older(id_, new[id_].attached_by, new[id_].attached_at):
            return f"has got partition {new[id_].name} with rows that were there before"
    writers = {new[id_].written_by for id_ in moved}
    is_whole = len(old) > 1 and moved == old.keys() and len(writers) == 1
    # A TRUNCATE of the whole table is a change.
    if before.oid not in old and not is_whole:
        for id_ in sorted(moved):
            if not old[id_].is_empty and not rows.has_older(id_, before.horizon):
                return f"has partition {new[id_].name} that was truncated by itself"
    return None


def keeps_values(old: str, new: str) -> bool:
    """Return whether each value of a type is the same in another one.

    Args:
        old: The type as PostgreSQL prints it, such as ``numeric(12,4)``.
        new: The other type.
    """
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(new) >= _INTEGERS.index(old)
    if (old, new) in _WIDER:
        return True
    number = _NUMBER.fullmatch(old)
    if number is not None or old in _INTEGERS:
        if new == "numeric":
            return True
        wider = _NUMBER.fullmatch(new)
        digits, scale = (19, 0) if number is None else (int(number[1]), int(number[2]))
        return (
            wider is not None
            and int(wider[2]) >= scale
            and (int(wider[1]) - int(wider[2]) >= digits - scale)
        )
    if (length := _LENGTH.fullmatch(old)) is not None:
        kind, most, rest = length.groups()
        longer = _LENGTH.fullmatch(new)
        if longer is not None and (longer[1], longer[3]) == (kind, rest):
            return int(longer[2]) >= int(most)
        return new == f"{kind}{rest}" or (kind == "character varying" and new == "text")
    return False


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
