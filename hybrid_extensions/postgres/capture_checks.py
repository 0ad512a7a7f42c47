"""Checks that PostgreSQL delivers all changes: views, partitions, identity, publication, key.

A snapshot reads whatever a SELECT returns. The changes come from the write-ahead log, through a
publication, and some of what a SELECT returns is never there.
https://www.postgresql.org/docs/current/logical-replication-restrictions.html
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sources.config.table.sink import Sink
from sources.errors import InputError

if TYPE_CHECKING:
    import psycopg

AGAIN = "then take the snapshot: `hybrid snapshot P`."
"""Last words of a hint, for who takes a snapshot."""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_TABLE = (
    "SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, c.relispartition, "
    "c.relreplident::text, current_setting('server_version_num')::int, "
    "EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid), "
    "(SELECT p.inhparent::regclass::text FROM pg_inherits p WHERE p.inhrelid = c.oid LIMIT 1), "
    "EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), "
    "EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary "
    "AND NOT i.indimmediate) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname = %s"
)
# A partition that lacks changes, or whose deletes lack the key; the table's entry does not say so.
_PARTITION = (
    "SELECT c.oid::regclass::text, c.relkind::text, c.relpersistence::text "
    "FROM pg_partition_tree(%s::oid::regclass) p JOIN pg_class c ON c.oid = p.relid "
    "WHERE p.isleaf AND p.level > 0 AND (c.relkind = 'f' OR c.relpersistence <> 'p' "
    "OR c.relreplident IN ('n', 'i')) ORDER BY 1 LIMIT 1"
)
_COLUMNS = (
    "SELECT attname, attgenerated::text, atttypid::regtype::text FROM pg_attribute "
    "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
)
# Columns of each unique index that identifies every row.
_UNIQUE = (
    "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a "
    "ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
    "WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indpred IS NULL "
    "AND i.indexprs IS NULL GROUP BY i.indexrelid HAVING bool_and(a.attnotnull)"
)
# Columns that a delete carries: of the primary key, or of the index that was chosen for that.
_IDENTITY = (
    "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
    "AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) WHERE i.indrelid = %s "
    "AND CASE WHEN %s = 'i' THEN i.indisreplident ELSE i.indisprimary END"
)
_PUBLICATIONS = (
    "SELECT p.pubname::text, p.pubinsert AND p.pubupdate AND p.pubdelete, p.pubtruncate, "
    "p.pubviaroot, {filter} FROM pg_publication p JOIN pg_publication_tables t "
    "ON t.pubname = p.pubname WHERE t.schemaname = %s AND t.tablename = %s "
    "AND p.pubname = coalesce(%s, p.pubname) ORDER BY 1"
)


class _Table(NamedTuple):
    """The table as PostgreSQL's catalog describes it."""

    oid: int
    kind: str
    persistence: str
    is_partition: bool
    identity: str
    server: int
    has_children: bool
    parent: str | None
    has_primary_key: bool
    is_deferrable: bool


def require_capturable(
    connection: psycopg.Connection[Any],
    table: str,
    columns: Collection[str],
    sink: Sink,
    *,
    truncates: bool,
    publication: str | None = None,
) -> list[str]:
    """Refuse a table if some of its changes would never arrive; return warnings.

    A table that does not exist, or that no publication includes, is not refused here; a partitioned
    one without publication is.

    Args:
        connection: Open connection to the database.
        table: The table, ``schema.table``.
        columns: Declared columns that a change's row fills.
        sink: The declaration of the target.
        truncates: Whether TRUNCATEs are followed.
        publication: The publication that the connector reads; None if any may be.

    Returns:
        Sentences about what is not captured, but may be meant so; maybe none.

    Raises:
        InputError: It names the table, the column or the publication, and the way out.
        psycopg.Error: The server does not answer, or refuses.
    """
    schema, _, name = table.partition(".")
    row = connection.execute(_TABLE, [schema, name]).fetchone()
    if row is None:
        return []
    found = _Table(*row)
    _require_table(found, table)
    _require_partitions(connection, found, table)
    _require_identity(connection, found, table, sink)
    _require_published(connection, found, table, truncates=truncates, publication=publication)
    described = [each for each in connection.execute(_COLUMNS, [found.oid]) if each[0] in columns]
    _require_fitting_key(connection, found, table, [name for name, *_ in described], sink)
    generated = [name for name, how, _ in described if how]
    if generated:
        listed = ", ".join(generated)
        message = (
            f"Table `{table}` has generated columns ({listed}), which PostgreSQL does not write to "
            "the log of changes: they would be right in the snapshot and null after each change."
        )
        hint = (
            f"List them in `ignored_columns: [{listed}]` instead of the `schema`, and compute them "
            f"in the transform; {AGAIN}"
        )
        raise InputError(message, hint, table=table, column=generated[0])
    large = [name for name, _, kind in described if kind in ("oid", "lo")]
    return [
        f"Column `{name}` of table `{table}` is an oid: if it refers to a large object, its "
        "content is in no log of changes, and only the number is captured."
        for name in large
    ]


def _require_table(found: _Table, table: str) -> None:
    """Refuse what is no table of its own with a log of its changes."""
    if found.kind in _KINDS:
        message = f"`{table}` is {_KINDS[found.kind]}, whose changes are in no log."
        hint = "Load it as files, without `snapshot`"
        hint += (
            ", or capture the table in the database that has it."
            if found.kind == "f"
            else "; or capture the tables that it reads, and compute it in the transform."
        )
        raise InputError(message, hint, table=table, field="table")
    if found.persistence != "p":
        what = "unlogged"
        hint = f"Run `ALTER TABLE {table} SET LOGGED` in the database; {AGAIN}"
        if found.persistence == "t":
            what, hint = "temporary", f"Name a permanent table in `table` of the topic; {AGAIN}"
        message = f"Table `{table}` is {what}: its changes are in no log."
        raise InputError(message, hint, table=table, field="table")
    if found.kind == "r" and found.has_children:
        message = (
            f"Other tables inherit from table `{table}`: a SELECT returns their rows, too, and "
            "their changes arrive as those of other tables."
        )
        hint = "Capture each of the tables that inherit from it in a pipeline of its own."
        raise InputError(message, hint, table=table, field="table")


def _require_partitions(connection: psycopg.Connection[Any], found: _Table, table: str) -> None:
    """Refuse a partitioned table of which a partition has no log of its changes, or not all."""
    row = connection.execute(_PARTITION, [found.oid]).fetchone() if found.kind == "p" else None
    if row is None:
        return
    name, kind, persistence = row
    if kind == "f":
        what = "is a foreign table, whose changes are in no log"
        hint = f"Run `ALTER TABLE {table} DETACH PARTITION {name}`; {AGAIN}"
    elif persistence != "p":
        what = "is unlogged: its changes are in no log"
        hint = f"Run `ALTER TABLE {name} SET LOGGED` in the database; {AGAIN}"
    else:
        what = "has a REPLICA IDENTITY of its own: its deletes may not carry the table's key"
        hint = f"Run `ALTER TABLE {name} REPLICA IDENTITY DEFAULT` in the database; {AGAIN}"
    message = f"Partition `{name}` of table `{table}` {what}."
    raise InputError(message, hint, table=table, value=name)


def _require_identity(
    connection: psycopg.Connection[Any], found: _Table, table: str, sink: Sink
) -> None:
    """Refuse a table whose updates and deletes do not say which row they change."""
    if found.has_primary_key and found.is_deferrable and sink.mode == "merge":
        message = (
            f"Table `{table}` has a primary key that is DEFERRABLE: within a transaction several "
            "rows may have one key, and the order of their changes does not tell which one stays."
        )
        hint = (
            f"Make it immediate: `ALTER TABLE {table} DROP CONSTRAINT …, ADD PRIMARY KEY (…)`; or "
            f"keep every change with `sink.mode: append`; {AGAIN}"
        )
        raise InputError(message, hint, table=table, field="sink.key")
    if found.has_primary_key or found.identity in ("i", "n"):
        return
    if found.identity == "d":
        message = (
            f"Table `{table}` has no primary key, so its updates and deletes carry no key "
            "(PostgreSQL even refuses them once the table is published)."
        )
        hint = (
            f"Run `ALTER TABLE {table} ADD PRIMARY KEY (…)`. Or, to keep every change with "
            f"`sink.mode: append`, run `ALTER TABLE {table} REPLICA IDENTITY FULL`; {AGAIN}"
        )
        raise InputError(message, hint, table=table)
    if sink.mode == "merge" and not _identifies_rows(connection, found, sink):
        message = (
            f"Table `{table}` has no primary key, and no unique index of columns that are never "
            f"null makes `sink.key` ({', '.join(sink.key)}) identify a row: equal rows would be "
            "merged into one."
        )
        hint = (
            f"Run `ALTER TABLE {table} ADD PRIMARY KEY (…)` and name its columns in `sink.key`; or "
            f"keep every change with `sink.mode: append`; {AGAIN}"
        )
        raise InputError(message, hint, table=table, field="sink.key")


def _require_fitting_key(
    connection: psycopg.Connection[Any],
    found: _Table,
    table: str,
    columns: Collection[str],
    sink: Sink,
) -> None:
    """Refuse a key of the sink that does not identify rows, or that deletes lack.

    Deletes without it would remove other rows. Asked of the columns that the table has now: one may
    have got another name since the snapshot.
    """
    if sink.mode != "merge" or not {*sink.key} <= {*columns}:
        return
    if not _identifies_rows(connection, found, sink):
        message = (
            f"`sink.key` ({', '.join(sink.key)}) does not identify a row of table `{table}`: it "
            "has the columns neither of the primary key nor of a unique index that is never null. "
            "Rows that are equal in it, or null, would be merged into one."
        )
        which = "the primary key" if found.has_primary_key else "such an index"
        hint = f"Name all columns of {which} in `sink.key`; {AGAIN}"
        raise InputError(message, hint, table=table, field="sink.key", value=sink.key[0])
    if found.identity not in ("d", "i"):
        return
    carried = [name for (name,) in connection.execute(_IDENTITY, [found.oid, found.identity])]
    lacking = [name for name in sink.key if name not in carried]
    if not (carried and lacking):
        return
    message = (
        f"Deletes of table `{table}` carry only {', '.join(f'`{each}`' for each in carried)}, and "
        f"`sink.key` has `{lacking[0]}`: they would not find their row, and without any value of "
        "the key be taken for a TRUNCATE."
    )
    hint = (
        f"Declare `sink: {{key: [{', '.join(carried)}]}}`. Or run `ALTER TABLE {table} REPLICA "
        f"IDENTITY FULL`, and name `sink.key` in `message.key.columns` of the connector; {AGAIN}"
    )
    raise InputError(message, hint, table=table, field="sink.key", value=lacking[0])


def _identifies_rows(connection: psycopg.Connection[Any], found: _Table, sink: Sink) -> bool:
    """Return whether ``sink.key`` has all columns of a unique index that is never null."""
    unique = connection.execute(_UNIQUE, [found.oid])
    return any({*columns} <= {*sink.key} for (columns,) in unique)


def _require_published(
    connection: psycopg.Connection[Any],
    found: _Table,
    table: str,
    *,
    truncates: bool,
    publication: str | None,
) -> None:
    """Refuse a table of which the publications leave out changes, or report them as another's."""
    schema, _, name = table.partition(".")
    row_filter = "t.rowfilter" if found.server >= 150_000 else "NULL"
    query = _PUBLICATIONS.format(filter=row_filter)
    rows: Sequence[Any] = connection.execute(query, [schema, name, publication]).fetchall()
    if found.kind == "p" and not any(row[3] for row in rows):
        listed = [each[0] for each in rows] or ["<publication>"]
        message = (
            f"Table `{table}` is partitioned: its changes arrive as those of its partitions, "
            "unless the publication says otherwise."
        )
        hint = (
            f"Run `ALTER PUBLICATION {listed[0]} ADD TABLE {table}` if it lacks the table, then "
            f"`ALTER PUBLICATION {listed[0]} SET (publish_via_partition_root = true)`; {AGAIN}"
        )
        raise InputError(message, hint, table=table, value=listed[0])
    if found.is_partition:
        message = (
            f"Table `{table}` is a partition of `{found.parent}`: rows move between partitions, "
            "and changes may arrive as those of the whole table."
        )
        hint = f"Capture `{found.parent}` instead; {AGAIN}"
        raise InputError(message, hint, table=table, field="table")
    if rows and all(row[4] is not None for row in rows):
        message = (
            f"Publication `{rows[0][0]}` has a row filter for table `{table}` ({rows[0][4]}): "
            "changes of other rows never arrive, and the snapshot would have them."
        )
        # SET TABLE would remove all other tables from the publication.
        alter = f"ALTER PUBLICATION {rows[0][0]}"
        hint = (
            f"Run `BEGIN; {alter} DROP TABLE {table}; {alter} ADD TABLE {table}; COMMIT` in the "
            f"database; {AGAIN}"
        )
        raise InputError(message, hint, table=table, value=rows[0][0])
    complete = [row for row in rows if row[1]]
    lacks_truncates = truncates and not any(row[2] for row in complete)
    if rows and (not complete or lacks_truncates):
        name = (complete or rows)[0][0]
        lacking = "TRUNCATEs" if complete else "all inserts, updates and deletes"
        message = f"Publication `{name}` does not publish {lacking} of table `{table}`."
        hint = (
            f"Run `ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, "
            f"truncate')`; {AGAIN}"
        )
        raise InputError(message, hint, table=table, value=name)
