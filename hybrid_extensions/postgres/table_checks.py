"""Checks before a PostgreSQL snapshot: hidden rows, columns, slot missing or lost, publication."""

from __future__ import annotations

from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.postgres.slot import find_slot
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import psycopg


# Arrays that Debezium marks where an update left them as they were.
_MARKED = {
    *("text[]", "character varying[]", "character[]", "json[]", "jsonb[]", "bytea[]"),
    *("integer[]", "bigint[]", "date[]", "uuid[]"),
}


def check_columns(
    connection: psycopg.Connection[Any], table: CapturedTable
) -> tuple[dict[str, str], list[str]]:
    """Refuse a table with rows or columns that a snapshot, or the changes after it, would lack.

    Args:
        connection: Open connection to the database.
        table: The table.

    Returns:
        The type of each column, as ``regtype`` prints it, by name; and warnings, as sentences.

    Raises:
        InputError: There is no such table, some of its rows may be hidden, its deletes carry no
            key, or its columns are not as declared.
        psycopg.Error: The server does not answer, or refuses.
    """
    rows = connection.execute(
        "SELECT a.attname, c.relreplident, a.attlen = -1 AND a.attstorage <> 'p' "
        "AND NOT (a.atttypid = 'numeric'::regtype AND a.atttypmod >= 0), "
        "a.atthasdef AND NOT a.attnotnull AND a.attgenerated = '', a.atttypid::regtype::text, "
        "row_security_active(c.oid), current_user "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE n.nspname = %s AND c.relname = %s "
        "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        table.parts,
    ).fetchall()
    if not rows:
        message = f"There is no table `{table.name}` in the database, or its columns can't be read."
        hint = (
            "Correct `table` of the topic, or the database in `snapshot.dsn`, or "
            "grant its user SELECT on the table."
        )
        raise InputError(message, hint, source=table.source, table=table.name, field="table")
    *_, is_partial, role = rows[0]
    if is_partial:
        message = f"Row-level security may hide rows of table `{table.name}` from `{role}`."
        hint = (
            f"Run `ALTER ROLE {role} BYPASSRLS` in the database, or name another user in "
            "`snapshot.dsn`, such as the owner of the table; then take the snapshot: `hybrid "
            "snapshot P`."
        )
        raise InputError(message, hint, source=table.source, table=table.name)
    table.require_columns([row[0] for row in rows])
    if rows[0][1] == "n":
        message = f"Table `{table.name}` has REPLICA IDENTITY NOTHING: its deletes carry no key."
        hint = (
            f"Run `ALTER TABLE {table.name} REPLICA IDENTITY DEFAULT` (the table needs a primary "
            "key), or `… FULL`; then take the snapshot: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, table=table.name)
    warnings = []
    long = [name for name, _, is_long, *_ in rows if is_long and name in table.columns]
    if rows[0][1] != "f" and long and table.sink.unchanged is None:
        warnings.append(
            f"Table `{table.name}` has no REPLICA IDENTITY FULL: an update that leaves a long "
            f"value as it was (of {', '.join(long)}; more than 2 kB) does not carry it, and is a "
            "bad record unless `sink.unchanged` keeps the row's value."
        )
    unmarked = [
        name
        for name, _, _, _, kind, *_ in rows
        if kind.endswith("[]") and kind not in _MARKED and name in table.columns
    ]
    if rows[0][1] != "f" and unmarked:
        warnings.append(
            f"Table `{table.name}` has no REPLICA IDENTITY FULL, and Debezium has no placeholder "
            f"for arrays of all types: an update that leaves a long value of {', '.join(unmarked)} "
            "as it was carries null in its place, which nothing tells from a null of the database. "
            f"Run `ALTER TABLE {table.name} REPLICA IDENTITY FULL`."
        )
    warnings += table.warn_of_defaults([name for name, _, _, has_one, *_ in rows if has_one])
    return {row[0]: row[4] for row in rows}, warnings


def check_slot(connection: psycopg.Connection[Any], table: CapturedTable) -> None:
    """Refuse a table whose replication slot is missing or lost.

    Args:
        connection: Open connection to the database.
        table: The table, whose options name the slot.

    Raises:
        InputError: Names the slot, and what to do.
        psycopg.Error: The server does not answer, or refuses.
    """
    name = table.options.log_reader
    state = find_slot(connection, name).state
    if state == "missing":
        message = (
            f"There is no replication slot `{name}` that is ready: changes made before are "
            "in no log, and would be missing from the table."
        )
        hint = (
            "Start the connector first and wait until it has read from the slot, or correct "
            "`snapshot.slot`; then take the snapshot: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, value=name)
    if state == "lost":
        message = (
            f"Replication slot `{name}` is lost: the server removed its log, and changes "
            "in it reach no connector."
        )
        hint = (
            "Create the connector again, with a new slot, and declare that under `snapshot.slot`; "
            "then take the snapshot: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, value=name)


def check_publication(
    connection: psycopg.Connection[Any], table: CapturedTable, publication: str | None = None
) -> None:
    """Refuse a table that no publication includes: its changes would be missing silently.

    Passes without a slot, and for one of another plugin than ``pgoutput``, which needs no
    publication.

    Args:
        connection: Open connection to the database.
        table: The table.
        publication: The publication that the connector reads; None if any may be.

    Raises:
        InputError: No such publication includes the table.
        psycopg.Error: The server does not answer, or refuses.
    """
    found = connection.execute(
        "SELECT s.plugin <> 'pgoutput' OR EXISTS (SELECT FROM pg_publication_tables "
        "WHERE schemaname = %s AND tablename = %s AND pubname = coalesce(%s, pubname)) "
        "FROM pg_replication_slots s WHERE slot_name = %s",
        [*table.parts, publication, table.options.log_reader],
    ).fetchone()
    if found is not None and not found[0]:
        where = "in no publication"
        if publication is not None:
            where = f"not in publication `{publication}`, which the connector reads"
        message = f"Table `{table.name}` is {where}: its changes do not arrive."
        hint = (
            "Add the table to the connector's `table.include.list`, and restart the connector; "
            "unless it makes the publication itself (`publication.autocreate.mode=filtered`), run "
            "`ALTER PUBLICATION … ADD TABLE …` in the database before. Then take the snapshot "
            "again: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=table.source, table=table.name)
