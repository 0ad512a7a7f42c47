"""Chunks of a PostgreSQL table by its statistics, or one chunk; newest rows are walked over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division
from sources.common.optional import needs_extra

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import psycopg
    from psycopg import sql

_INTEGERS = ("smallint", "integer", "bigint")


def divide(
    connection: psycopg.Connection[Any], table: CapturedTable, known: Division | None = None
) -> Division:
    """Return chunks by PostgreSQL's statistics of the first column of the primary key.

    They have about ``snapshot.chunk_rows`` rows each, or more if the key is no integer and the
    statistics have fewer bounds; the table is one chunk without statistics. What comes after the
    last bound is walked over, as statistics do not know the newest rows.

    Args:
        connection: Open connection to the database.
        table: The table.
        known: Chunks by earlier statistics; only the last one is divided further.

    Raises:
        psycopg.Error: The database refuses, or the connection ends.
    """
    division = known or _by_statistics(connection, table)
    return division.extended(_after_last(connection, table, division))


def where(division: Division, chunk: int) -> sql.Composable:
    """Return the SQL condition of the rows of one chunk; ``true`` if the table is one chunk.

    Args:
        division: Division of the table.
        chunk: Number of the chunk, from 0.
    """
    if division.key is None:
        return sql.SQL("true")
    first, following = division.ends(chunk)
    parts = [
        _compared(division.key, sign, end)
        for sign, end in ((">=", first), ("<", following))
        if end is not None
    ]
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")


def _by_statistics(connection: psycopg.Connection[Any], table: CapturedTable) -> Division:
    row = connection.execute(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), c.reltuples, "
        "s.histogram_bounds::text::text[] "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
        "LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname "
        "AND s.attname = a.attname AND NOT s.inherited "
        "WHERE n.nspname = %s AND c.relname = %s",
        table.parts,
    ).fetchone()
    if row is None or not row[3]:
        return Division(None, [])
    name, kind, rows, histogram = row
    wanted = math.ceil(rows / table.options.chunk_rows)
    inner = _at_least(wanted, histogram, kind)[1:-1]
    count = min(wanted - 1, len(inner))
    at = [(number + 1) * len(inner) // (count + 1) for number in range(count)]
    return Division((name, kind), list(dict.fromkeys(inner[number] for number in at)))


def _at_least(parts: int, bounds: Sequence[str], kind: str) -> Sequence[str]:
    """Return bounds of at least that many parts, as far as the key's type allows.

    Between two bounds of the statistics, of which PostgreSQL keeps 101 unless told otherwise, there
    are as many rows as between any other two; integers are taken to be spread evenly there.
    """
    each = math.ceil(parts / (len(bounds) - 1))
    if kind not in _INTEGERS or each < 2:
        return bounds
    pairs = list(pairwise(map(int, bounds)))
    inner = [str(low + (high - low) * part // each) for low, high in pairs for part in range(each)]
    return [*inner, bounds[-1]]


def _after_last(
    connection: psycopg.Connection[Any], table: CapturedTable, division: Division
) -> Iterator[str]:
    """Yield a key after each ``chunk_rows`` rows that come after the last bound."""
    if division.key is None:
        return
    key, rows = sql.Identifier(division.key[0]), table.options.chunk_rows
    last = division.bounds[-1] if division.bounds else None
    while True:
        # Several rows may have one value of the first column.
        after = sql.SQL("true") if last is None else _compared(division.key, ">", last)
        query = sql.SQL(
            # Of the table: the name alone is that of the text in the result.
            "SELECT {key}::text FROM {table} AS t WHERE {after} ORDER BY t.{key} "
            "OFFSET {rows} LIMIT 1"
        ).format(
            key=key,
            table=sql.Identifier(*table.parts),
            after=after,
            rows=sql.Literal(rows if last is None else rows - 1),
        )
        row = connection.execute(query).fetchone()
        if row is None:
            return
        last = str(row[0])
        yield last


def _compared(key: tuple[str, str], sign: str, bound: str) -> sql.Composable:
    name, kind = key
    # The type's name comes from PostgreSQL itself.
    return sql.SQL(f"{{}} {sign} {{}}::{{}}").format(
        sql.Identifier(name), sql.Literal(bound), sql.SQL(kind)
    )
